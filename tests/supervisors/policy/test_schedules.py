"""When schedules occur, what falls due, and how it is said."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from storage.notifications.schedules import DueSchedule, OccurrenceOutcome, OnlyIf, PausedReason, Step, settle
from supervisors.policy.schedules import (
    MAX_MISSED,
    NEVER,
    TWO_DAYS,
    Answer,
    BadSchedule,
    after_check,
    changed,
    fall_due,
    hint_of,
    jitter,
    moments_after,
    next_after,
    run_now,
    says,
    too_close,
)
from tests.storage.factories import HOUR, MINUTE, SECOND, agent, organization, schedule

DAY = 24 * HOUR
TUESDAY = datetime(2026, 11, 24, 7, 30, tzinfo=UTC)  # 8:30 in Vienna


def made(zone: str = "Europe/Vienna", **given: Any) -> DueSchedule:
    """Make a schedule of an agent in this zone, created on that Tuesday, with its next moment."""
    defaults = {"created_at": TUESDAY, "next_at": None, "due_at": None}
    plain = schedule(agent(organization().id, timezone=zone), **{**defaults, **given})
    if plain.next_at is None:
        plain = changed(plain, {}, plain.created_at)
    return DueSchedule(**{field.name: getattr(plain, field.name) for field in fields(plain)})


def after(step: Step) -> DueSchedule:
    """Return the schedule as it is stored after the step."""
    stored = settle(step, ()).after
    return DueSchedule(**{field.name: getattr(stored, field.name) for field in fields(stored)})


@pytest.mark.parametrize(
    ("zone", "start", "cron", "expected"),
    [
        ("America/New_York", "2026-03-08T00:00", "30 2 * * *", ["03-08 03:00 -0400", "03-09 02:30 -0400"]),
        ("America/New_York", "2026-11-01T00:00", "30 1 * * *", ["11-01 01:30 -0400", "11-02 01:30 -0500"]),
        ("Europe/Vienna", "2026-03-29T00:00", "30 2 * * *", ["03-29 03:00 +0200", "03-30 02:30 +0200"]),
        ("Europe/Vienna", "2026-10-25T00:00", "30 2 * * *", ["10-25 02:30 +0200", "10-26 02:30 +0100"]),
        ("Europe/Vienna", "2026-10-25T01:59", "0 * * * *", ["10-25 02:00 +0200", "10-25 02:00 +0100"]),
        ("America/Santiago", "2026-09-05T01:00", "30 0 * * *", ["09-06 01:00 -0300", "09-07 00:30 -0300"]),
        ("America/Santiago", "2026-04-04T01:00", "30 23 * * *", ["04-04 23:30 -0300", "04-05 23:30 -0400"]),
        ("Australia/Sydney", "2026-10-04T00:00", "30 2 * * *", ["10-04 03:00 +1100", "10-05 02:30 +1100"]),
        ("Australia/Sydney", "2026-04-05T00:00", "30 2 * * *", ["04-05 02:30 +1100", "04-06 02:30 +1000"]),
        # The day 30 December 2011 did not exist there: its time came right after the gap.
        (
            "Pacific/Apia",
            "2011-12-29T08:00",
            "0 9 * * *",
            ["12-29 09:00 -1000", "12-31 00:00 +1400", "12-31 09:00 +1400"],
        ),
    ],
)
def test_cron_follows_the_clock_changes_of_its_zone(
    zone: str, start: str, cron: str, expected: list[str]
) -> None:
    created_at = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    found = moments_after(made(zone, cron=cron, created_at=created_at), created_at)
    local = (f"{each.astimezone(ZoneInfo(zone)):%m-%d %H:%M %z}" for each in found)
    assert list(islice(local, len(expected))) == expected


def test_search_within_repeated_hour_finds_nothing_that_has_passed() -> None:
    second_time = datetime(2026, 10, 25, 0, 50, tzinfo=UTC) + HOUR  # 2:50, shown for the second time
    found = made(cron="45 2 * * *", created_at=second_time - 30 * MINUTE)
    assert next_after(found, second_time - 30 * MINUTE) == datetime(2026, 10, 26, 1, 45, tzinfo=UTC)


def test_expression_that_never_comes_is_refused_also_when_one_is_due() -> None:
    daily = made()
    assert daily.next_at is not None
    with pytest.raises(BadSchedule, match=NEVER):
        changed(daily, {"cron": "0 0 LW * */7"}, daily.next_at)  # the last weekday, on a Sunday


def test_interval_counts_real_seconds_from_its_start() -> None:
    every = made(cron=None, every_seconds=5400)
    assert every.next_at == TUESDAY + 90 * MINUTE
    assert next_after(every, TUESDAY + 200 * DAY) == TUESDAY + 200 * DAY + 90 * MINUTE
    edited = replace(every, next_at=TUESDAY + 10 * MINUTE)  # off the new moments, as after a change
    step = fall_due(edited, TUESDAY + 300 * MINUTE)
    assert step.occurrence is not None
    assert (step.occurrence.occurs_at, step.occurrence.missed_count) == (TUESDAY + 270 * MINUTE, 3)
    started = made(cron=None, every_seconds=3600, starts_at=TUESDAY + 10 * MINUTE)
    assert started.next_at == TUESDAY + 10 * MINUTE


def test_schedule_keeps_to_its_start_and_end() -> None:
    bounded = made(starts_at=TUESDAY + 3 * DAY, ends_at=TUESDAY + 5 * DAY)
    found = list(moments_after(bounded, TUESDAY))
    assert found == [TUESDAY + 30 * MINUTE + days * DAY for days in (3, 4)]
    at_start = made(starts_at=TUESDAY + 30 * MINUTE)
    assert at_start.next_at == TUESDAY + 30 * MINUTE


def watching(wake_if: str, **given: Any) -> DueSchedule:
    call = {"tool": "look", "arguments": {}, "wake_if": wake_if}
    return made(watch=call, ends_at=TUESDAY + 30 * DAY, **given)


def checked(schedule: DueSchedule, *answers: Any) -> list[tuple[str, bool]]:
    """Return the outcome of each answer, of which an Exception is an error, and whether it warns."""
    found = []
    for answer in answers:
        assert schedule.next_at is not None
        given = Answer(error=str(answer)) if isinstance(answer, Exception) else Answer(answer)
        step = after_check(schedule, given, schedule.next_at)
        assert step.occurrence is not None
        found.append((str(step.occurrence.outcome), step.warns))
        schedule = after(step)
    return found


ERROR = ValueError("down")
FIRED, UNCHANGED, FAILED, WARNED = (
    ("fired", False),
    ("unchanged", False),
    ("failed", False),
    ("failed", True),
)


@pytest.mark.parametrize(
    ("wake_if", "answers", "expected"),
    [
        ("changed", [1, 1, 2, 2], [UNCHANGED, UNCHANGED, FIRED, UNCHANGED]),
        ("changed", [None, [], None], [UNCHANGED, FIRED, FIRED]),
        ("changed", [1, ERROR, 1, ERROR, 2], [UNCHANGED, FAILED, UNCHANGED, FAILED, FIRED]),
        ("changed", [ERROR, ERROR, ERROR, ERROR, 1], [FAILED, FAILED, WARNED, FAILED, UNCHANGED]),
        ("nonempty", [[], " ", None, {}, "a", "a"], [*[UNCHANGED] * 4, FIRED, UNCHANGED]),
        ("nonempty", ["a", "", "a"], [FIRED, UNCHANGED, FIRED]),
        ("nonempty", [0, False, False], [FIRED, FIRED, UNCHANGED]),
        ("error", [1, 2, ERROR, ERROR, 2, ERROR], [*[UNCHANGED] * 2, FIRED, FAILED, UNCHANGED, FIRED]),
    ],
)
def test_answer_to_a_check_decides(wake_if: str, answers: Any, expected: Any) -> None:
    assert checked(watching(wake_if), *answers) == expected


def test_errors_that_wake_warn_of_nothing_more() -> None:
    assert checked(watching("error"), *[ERROR] * 5) == [FIRED, *[FAILED] * 4]


def test_notification_shows_a_long_answer_from_its_first_difference() -> None:
    daily = watching("changed")
    assert daily.next_at is not None
    before = after(after_check(daily, Answer("x" * 900 + "before"), daily.next_at))
    assert before.next_at is not None
    step = after_check(before, Answer("x" * 900 + "now" + "y" * 100_000), before.next_at)
    now, was, *_ = step.text.splitlines()
    assert "xnowy" in now
    assert was.startswith("Before: …x")
    assert was.endswith('xbefore"')
    assert len(step.text) < 2000


def test_another_check_begins_anew() -> None:
    daily = watching("changed", answer_digest="a", answer="1", failed_count=2)
    assert daily.watch is not None
    same = changed(daily, {"watch": dict(daily.watch), "title": "New"}, TUESDAY)
    other = changed(daily, {"watch": {**daily.watch, "tool": "see"}}, TUESDAY)
    assert (same.answer_digest, same.failed_count) == ("a", 2)
    assert (other.answer_digest, other.answer, other.failed_count) == ("", "", 0)


def test_check_ends_after_30_days_unless_it_is_renewed() -> None:
    daily = watching("changed")
    with pytest.raises(BadSchedule, match="30 days"):
        changed(daily, {"ends_at": TUESDAY + 31 * DAY}, TUESDAY)
    with pytest.raises(BadSchedule, match="30 days"):
        changed(daily, {"ends_at": None}, TUESDAY)
    count = 0
    while daily.next_at is not None:
        daily, count = after(after_check(daily, Answer(count), daily.next_at)), count + 1
    assert (count, daily.paused_reason) == (30, PausedReason.ENDED)
    renewed = changed(daily, {"ends_at": TUESDAY + 60 * DAY}, TUESDAY + 30 * DAY + HOUR)
    assert (renewed.paused_reason, renewed.next_at) == (PausedReason.NONE, TUESDAY + 31 * DAY + HOUR / 2)


def test_occurrence_fires_in_time_and_moves_on() -> None:
    daily = made()
    assert daily.next_at is not None
    step = fall_due(daily, daily.next_at)
    assert step.occurrence is not None
    assert (step.occurrence.outcome, step.occurrence.occurs_at) == (OccurrenceOutcome.FIRED, daily.next_at)
    assert (step.after.next_at, step.after.due_at, step.text) == (
        daily.next_at + DAY,
        daily.next_at + DAY,
        "Look at the figures.",
    )


def test_latest_occurrence_stands_for_all_missed_ones() -> None:
    daily = made()
    assert daily.next_at is not None
    step = fall_due(daily, daily.next_at + 3 * DAY + 2 * HOUR)
    assert step.occurrence is not None
    assert step.occurrence.occurs_at == daily.next_at + 3 * DAY
    assert step.occurrence.missed_count == 3
    assert step.text == (
        "It was due at 2026-11-27 9:00 Vienna time, 2 hours ago. 3 earlier times were missed.\n\n"
        "Look at the figures."
    )
    assert step.after.next_at == daily.next_at + 4 * DAY


def test_latest_occurrence_is_found_in_the_second_before_the_next() -> None:
    often = made(cron="* * * * *")
    step = fall_due(often, TUESDAY + DAY - SECOND / 2)
    assert step.occurrence is not None
    assert (step.occurrence.occurs_at, step.after.next_at) == (TUESDAY + DAY - MINUTE, TUESDAY + DAY)


def test_count_of_missed_occurrences_is_bounded() -> None:
    often = made(cron="* * * * *")
    step = fall_due(often, TUESDAY + 365 * DAY)
    assert step.occurrence is not None
    assert (step.occurrence.missed_count, step.occurrence.occurs_at) == (MAX_MISSED, TUESDAY + 365 * DAY)
    assert "At least 100 earlier times were missed." in step.text
    every = made(cron=None, every_seconds=60)
    step = fall_due(every, TUESDAY + 365 * DAY)
    assert step.occurrence is not None
    assert step.occurrence.missed_count == 365 * 24 * 60 - 1


@pytest.mark.parametrize(
    ("seconds", "outcome"),
    [
        (600, OccurrenceOutcome.FIRED),
        (660, OccurrenceOutcome.FIRED),
        (661, OccurrenceOutcome.LATE),
    ],
)
def test_late_occurrence_is_dropped_after_its_grace(seconds: int, outcome: OccurrenceOutcome) -> None:
    limited = made(late_seconds=600)
    assert limited.next_at is not None
    step = fall_due(limited, limited.next_at + seconds * SECOND)
    assert step.occurrence is not None
    assert (step.occurrence.outcome, step.after.next_at) == (outcome, limited.next_at + DAY)


@pytest.mark.parametrize(
    "changes", [{"paused_reason": PausedReason.MANUAL}, {"agent_archived": True}], ids=["manual", "archived"]
)
def test_occurrences_pass_during_pause(changes: dict[str, Any]) -> None:
    paused = replace(made(), **changes)
    assert paused.next_at is not None
    step = fall_due(paused, paused.next_at + DAY)
    assert step.occurrence is not None
    assert (step.occurrence.outcome, step.occurrence.missed_count) == (OccurrenceOutcome.PAUSED, 1)
    assert (step.after.next_at, step.after.paused_reason) == (paused.next_at + 2 * DAY, paused.paused_reason)


def test_condition_lets_occurrence_pass_if_nothing_waits() -> None:
    digest = replace(made(only_if=OnlyIf.WAITING), something_waits=False)
    assert digest.next_at is not None
    step = fall_due(digest, digest.next_at)
    assert step.occurrence is not None
    assert step.occurrence.outcome is OccurrenceOutcome.NOTHING_WAITING


def test_schedule_ends_after_its_last_occurrence() -> None:
    twice = made(max_occurrences=2)
    assert twice.next_at is not None
    step = fall_due(twice, twice.next_at)
    assert (step.after.next_at, step.after.paused_reason) == (twice.next_at + DAY, PausedReason.NONE)
    step = fall_due(after(step), twice.next_at + DAY)
    assert (step.after.next_at, step.after.due_at, step.after.paused_reason) == (
        None,
        None,
        PausedReason.ENDED,
    )
    bounded = made(ends_at=TUESDAY + 3 * DAY)
    assert bounded.next_at is not None
    step = fall_due(bounded, TUESDAY + 30 * DAY)
    assert step.occurrence is not None
    assert step.occurrence.occurs_at == bounded.next_at + 2 * DAY


def test_jitter_delays_each_occurrence_by_the_same_time() -> None:
    delayed = made(cron="*/10 * * * *", jitter_seconds=3600)
    assert delayed.next_at is not None
    assert delayed.due_at == delayed.next_at + jitter(delayed)
    assert timedelta() < jitter(delayed) <= HOUR
    step = fall_due(delayed, delayed.due_at)
    assert step.occurrence is not None
    assert (step.occurrence.occurs_at, step.occurrence.missed_count) == (delayed.next_at, 0)
    assert step.after.next_at == delayed.next_at + 10 * MINUTE


def test_new_zone_of_agent_replans_across_the_date_line() -> None:
    auckland = made("Pacific/Auckland")
    honolulu = replace(auckland, agent_timezone="Pacific/Honolulu", due_at=datetime(1970, 1, 1, tzinfo=UTC))
    step = fall_due(honolulu, TUESDAY)
    assert step.occurrence is None
    assert step.after.next_at == datetime(2026, 11, 24, 19, tzinfo=UTC)  # 9:00 on the same Tuesday there


def test_clock_that_is_set_back_repeats_nothing() -> None:
    hourly = replace(made(cron="0 * * * *"), last_at=TUESDAY + 150 * MINUTE, next_at=TUESDAY + 210 * MINUTE)
    again = replace(hourly, due_at=datetime(1970, 1, 1, tzinfo=UTC))  # as after a new zone
    assert fall_due(again, TUESDAY).after.next_at == hourly.next_at
    assert changed(hourly, {"title": "Figures"}, TUESDAY).next_at == hourly.next_at


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "Europe", "/etc/localtime"])
def test_zone_that_is_not_known_any_more_stops_the_schedule(zone: str) -> None:
    daily = replace(made(), timezone=zone)
    assert daily.next_at is not None
    step = fall_due(daily, daily.next_at)
    assert step.occurrence is not None
    assert step.occurrence.outcome is OccurrenceOutcome.FIRED
    assert (step.after.next_at, step.after.due_at, step.after.paused_reason) == (
        None,
        None,
        PausedReason.TIMEZONE,
    )
    again = replace(daily, next_at=None, paused_reason=PausedReason.TIMEZONE, timezone="Europe/Vienna")
    step = fall_due(again, TUESDAY)
    assert (step.after.next_at, step.after.paused_reason) == (TUESDAY + 30 * MINUTE, PausedReason.NONE)


def test_occurrence_that_is_due_survives_a_change() -> None:
    daily, evening = made(), {"cron": "0 18 * * *"}
    assert daily.next_at is not None
    assert changed(daily, evening, daily.next_at + SECOND).next_at == daily.next_at
    assert changed(daily, evening, TUESDAY).next_at == TUESDAY + 9.5 * HOUR


def test_request_notifies_at_once_and_leaves_the_next_moment() -> None:
    paused = replace(made(), paused_reason=PausedReason.MANUAL)
    step = run_now(paused, TUESDAY)
    assert step.notifies
    assert (step.after.next_at, step.after.due_at, step.after.paused_reason) == (
        paused.next_at,
        paused.due_at,
        PausedReason.MANUAL,
    )


def test_merged_notification_says_how_often_it_was_due() -> None:
    daily = replace(made(), merged_count=2)
    assert daily.next_at is not None
    assert fall_due(daily, daily.next_at).merged_text == (
        "3 times due without being cleared, the last at 2026-11-24 9:00 Vienna time.\n\nLook at the figures."
    )


@pytest.mark.parametrize(
    ("cron", "field", "message"),
    [
        ("0 0 30 2 *", "cron", "This is no cron expression: Bad day-of-month."),
        ("0 0 */30 2 TUE#5", "cron", NEVER),
        ("* * * * * *", "cron", "Write five fields: minute, hour, day of month, month, day of week."),
        ("@daily", "cron", "Write five fields: minute, hour, day of month, month, day of week."),
        ("61 * * * *", "cron", "This is no cron expression: Bad minute."),
        (None, "cron", "Give exactly one of cron and every_seconds."),
    ],
)
def test_expression_without_occurrences_is_refused(cron: str | None, field: str, message: str) -> None:
    with pytest.raises(BadSchedule) as refused:
        made(cron=cron)
    assert (refused.value.field, str(refused.value)) == (field, message)


def test_end_before_first_occurrence_is_refused() -> None:
    with pytest.raises(BadSchedule) as refused:
        made(ends_at=TUESDAY + MINUTE)
    assert refused.value.field == "ends_at"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"cron": "0 9 * * 1-5"}, "At 9:00, Monday to Friday, Vienna time"),
        ({"cron": "30 18 * * *"}, "At 18:30, every day, Vienna time"),
        ({"cron": "0 9 1 * 1"}, "At 9:00, the first day of month or on Monday, Vienna time"),
        ({"cron": "0 9 * * MON#1"}, "At 9:00, the first Monday of the month, Vienna time"),
        ({"cron": "*/5 * * * *", "timezone": "UTC"}, "Every fifth minute of every hour, UTC"),
        ({"cron": "0 9 * * *", "timezone": "America/New_York"}, "At 9:00, every day, New York time"),
        ({"cron": None, "every_seconds": 5400}, "Every 90 minutes"),
        ({"cron": None, "every_seconds": 3600}, "Every hour"),
    ],
)
def test_schedule_says_when_it_occurs(given: dict[str, Any], sentence: str) -> None:
    assert says(made(**given)) == sentence


@pytest.mark.parametrize("timing", [{"cron": "0 9 * * *"}, {"cron": None, "every_seconds": 86_400}])
def test_schedule_ends_with_the_calendar(timing: dict[str, Any]) -> None:
    late = made(starts_at=datetime(9998, 12, 29, 12, tzinfo=UTC), **timing)
    assert 1 <= len(list(moments_after(late, TUESDAY))) <= 2
    with pytest.raises(BadSchedule):
        made(starts_at=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), **timing)


def test_two_restricted_day_fields_have_a_hint() -> None:
    assert hint_of(made(cron="0 9 1 * 1")) == TWO_DAYS
    assert hint_of(made(cron="0 9 */2 * 1")) == hint_of(made(cron=None, every_seconds=60)) == ""


def test_moments_too_close_to_each_other_are_found() -> None:
    pair = too_close(made(cron="0,3 9 * * *"), TUESDAY)
    assert pair == (TUESDAY + 30 * MINUTE, TUESDAY + 33 * MINUTE)
    assert too_close(made(cron="*/5 * * * *"), TUESDAY) is None
