"""Replays of short recordings: which runs there are, what they stand for and what they cost."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from storage.events.rewind import KnownNotification
from storage.model import Outcome, Priority, Source
from storage.notifications.schedules import Schedule
from supervisors.rewind.recording import with_schedules
from supervisors.rewind.replay import Replay, Rules
from tests.supervisors.rewind.recordings import AGENT, MIDNIGHT, ORGANIZATION, Log, at, note, rules


def replayed(log: Log, after: Rules, before: Rules | None = None) -> Replay:
    first = Replay(log.recording(), before or rules())
    list(first.steps())
    second = Replay(log.recording(), after, first.delays)
    list(second.steps())
    return second


def starts(replay: Replay) -> list[datetime]:
    return [wake.at for wake in replay.wakes]


def five_texts() -> Log:
    log = Log()
    for number in range(5):
        log.comes(number, f"10:0{number}:00")
        log.run(f"10:0{number}:01", "notification:sms", number)
    return log


def test_recorded_delay_of_a_start_stays() -> None:
    assert starts(replayed(five_texts(), rules())) == [at(f"10:0{number}:01") for number in range(5)]


def test_window_merges_texts_into_one_run() -> None:
    replay = replayed(five_texts(), rules(window=90))

    assert starts(replay) == [at("10:05:30")]
    assert replay.wakes[0].cost_usd == Decimal("0.01")
    assert [cleared_at for _, _, cleared_at in replay.waits] == [at("10:05:40")] * 5


def test_limit_of_wakes_delays_the_third() -> None:
    replay = replayed(five_texts(), rules(max_wakes_per_hour=2))

    assert starts(replay) == [at("10:00:01"), at("10:01:01"), at("11:00:01")]


def test_priority_of_a_source_keeps_it_asleep() -> None:
    log = five_texts()
    low = Rules(rules().facts, rules().policy, {Source.SMS: Priority.LOW})

    assert starts(replayed(log, low)) == []


def test_text_that_needed_two_runs_still_needs_two() -> None:
    log = Log()
    log.comes(1, "10:00:00")
    log.run("10:00:00", "notification:sms", outcome=Outcome.FAILED)
    log.run("10:00:21", "retry_after_failure", 1)

    replay = replayed(log, rules(window=60))

    assert [(wake.at, str(wake.reason)) for wake in replay.wakes] == [
        (at("10:01:00"), "notification:sms"),
        (at("10:01:21"), "retry_after_failure"),
    ]


def test_shorter_quiet_hours_wake_earlier() -> None:
    log = Log()
    log.comes(1, "03:12:00")
    log.run("07:00:00", "notification:sms", 1)

    replay = replayed(log, rules(quiet_hours="22:00-03:00"), rules(quiet_hours="22:00-07:00"))

    assert starts(replay) == [at("03:12")]


def test_priority_before_the_period_is_that_before_its_change() -> None:
    log = Log()
    log.changes(1, "10:00:00", "high")
    log.run("10:00:01", "notification:sms", 1)
    known = KnownNotification(
        note(1), ORGANIZATION, AGENT, Source.SMS, "", Priority.HIGH, at("08:00"), None, False, True
    )
    recording = replace(
        log.recording(), replayed_from=at("09:00"), start=at("09:00"), notifications={note(1): known}
    )
    first = Replay(recording, rules())
    list(first.steps())

    assert first.reproduced == 1
    assert first.waits == [(Source.SMS, at("10:00"), at("10:00:11"))]


def test_notifications_that_no_recorded_run_saw_are_cleared() -> None:
    log = five_texts()
    first = Replay(log.recording(), rules())
    list(first.steps())
    watch = {"tool": "look"}
    tea = Schedule(note(9), ORGANIZATION, AGENT, "", "Tea", MIDNIGHT, "", "UTC", watch=watch)
    changed = with_schedules(log.recording(), [(tea, [at("09:00"), at("11:00")])])

    replay = Replay(changed, rules(), first.delays)
    list(replay.steps())

    assert starts(replay) == [at("09:00"), *(at(f"10:0{number}:01") for number in range(5)), at("11:00")]
