"""Limits on wakes: what delays a wake and until when, across clock changes, and what quiet hours may say."""

from datetime import UTC, datetime, timedelta

import pytest

from storage.agent_facts import WakeLimits
from supervisors.policy.limits import (
    WEEK_MINUTES,
    Delay,
    delay_of,
    parse_quiet_hours,
    quiet_minutes,
)

VIENNA = "Europe/Vienna"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def quiet_until(quiet_hours: str, at: str, timezone: str = VIENNA) -> datetime | None:
    delay = delay_of(WakeLimits(quiet_hours=quiet_hours, timezone=timezone), utc(at))
    return delay.until if delay else None


@pytest.mark.parametrize(
    ("quiet_hours", "at", "until"),
    [
        ("22:00-07:00", "2026-11-28 21:00", "2026-11-29 06:00"),
        ("22:00-07:00", "2026-11-28 20:59", None),
        ("22:00-07:00", "2026-11-28 06:00", None),
        ("22:00-07:00", "2026-11-28 05:59", "2026-11-28 06:00"),
        ("Mon-Fri 22:00-07:00", "2026-11-28 05:59", "2026-11-28 06:00"),  # of Friday's
        ("Mon-Fri 22:00-07:00", "2026-11-28 21:00", None),  # Saturday's evening
        ("Sat-Mon 12:00-13:00", "2026-11-29 11:30", "2026-11-29 12:00"),
        ("Sun 00:00-24:00", "2026-11-29 12:00", "2026-11-29 23:00"),
        ("Sat 22:00-24:00, Sun 00:00-07:00", "2026-11-28 21:30", "2026-11-29 06:00"),
        ("", "2026-11-28 21:00", None),
    ],
)
def test_quiet_hours_delay_until_their_end(quiet_hours: str, at: str, until: str | None) -> None:
    assert quiet_until(quiet_hours, at) == (until and utc(until))


@pytest.mark.parametrize(
    ("quiet_hours", "timezone", "at", "until"),
    [
        # The clock goes from 2:00 to 3:00 at 1:00 UTC.
        ("22:00-07:00", VIENNA, "2026-03-28 21:00", "2026-03-29 05:00"),
        ("22:00-02:30", VIENNA, "2026-03-29 00:59", "2026-03-29 01:30"),
        ("02:30-04:00", VIENNA, "2026-03-29 01:29", None),
        ("02:30-04:00", VIENNA, "2026-03-29 01:30", "2026-03-29 02:00"),
        # It goes from 3:00 to 2:00 at 1:00 UTC.
        ("22:00-07:00", VIENNA, "2026-10-24 20:00", "2026-10-25 06:00"),
        ("22:00-02:30", VIENNA, "2026-10-25 00:29", "2026-10-25 00:30"),
        ("22:00-02:30", VIENNA, "2026-10-25 01:15", None),
        # Midnight is skipped: the clock goes from 24:00 to 1:00 at 4:00 UTC.
        ("22:00-24:00", "America/Santiago", "2026-09-06 03:30", "2026-09-06 04:00"),
        # It goes from 2:00 to 2:30 at 15:30 UTC.
        ("22:00-07:00", "Australia/Lord_Howe", "2026-10-03 15:00", "2026-10-03 20:00"),
    ],
)
def test_quiet_hours_end_once_when_the_clock_changes(
    quiet_hours: str, timezone: str, at: str, until: str | None
) -> None:
    assert quiet_until(quiet_hours, at, timezone) == (until and utc(until))


def test_time_zone_that_is_not_known_any_more_counts_as_utc() -> None:
    for lost in ("Mars/Base", "../UTC"):
        assert quiet_until("22:00-07:00", "2026-11-28 23:00", lost) == utc("2026-11-29 07:00")


def test_full_hour_delays_for_an_hour_from_its_start() -> None:
    limits = WakeLimits(max_wakes_per_hour=2, fills_hour_at=utc("2026-11-28 12:10"))
    renewal = utc("2026-11-28 13:10")

    before = renewal - timedelta(microseconds=1)
    assert delay_of(limits, before) == Delay(
        before, renewal, "Has woken 2 times within an hour, its limit; next at"
    )
    assert delay_of(limits, renewal) is None


@pytest.mark.parametrize(
    ("timezone", "at", "midnight"),
    [
        (VIENNA, "2026-11-28 12:00", "2026-11-28 23:00"),
        (VIENNA, "2026-10-25 00:00", "2026-10-25 23:00"),  # a day of 25 hours
        ("America/Santiago", "2026-09-06 03:30", "2026-09-06 04:00"),  # its midnight is skipped
        ("Pacific/Kiritimati", "2026-11-28 12:00", "2026-11-29 10:00"),
    ],
)
def test_full_day_delays_until_the_next_local_midnight(timezone: str, at: str, midnight: str) -> None:
    start = utc(at)
    limits = WakeLimits(max_wakes_per_day=1, timezone=timezone, fills_day_at=start)

    assert delay_of(limits, start) == Delay(start, utc(midnight), "Has woken once today, its limit; next at")
    assert delay_of(limits, utc(midnight)) is None


def test_limits_that_follow_each_other_add_up() -> None:
    limits = WakeLimits(None, 24, "22:00-07:00", VIENNA, fills_day_at=utc("2026-11-28 20:00"))

    due_at = utc("2026-11-28 20:30")
    assert delay_of(limits, due_at) == Delay(due_at, utc("2026-11-29 06:00"), "Quiet until")


def test_last_moment_of_time_is_not_delayed() -> None:
    assert delay_of(WakeLimits(quiet_hours="22:00-07:00"), datetime.max.replace(tzinfo=UTC)) is None


@pytest.mark.parametrize(
    "text", ["22-7", "22:00", "24:00-07:00", "22:00-24:30", "mon 22:00-07:00", "22:00-07:00,", " 22:00-07:00"]
)
def test_other_quiet_hours_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no period of quiet hours"):
        parse_quiet_hours(text)


def test_minutes_of_a_week_are_counted_once() -> None:
    assert len(quiet_minutes(parse_quiet_hours("Sun 22:00-07:00, Mon 00:00-08:00"))) == 10 * 60
    assert len(quiet_minutes(parse_quiet_hours("00:00-24:00"))) == WEEK_MINUTES
    assert len(quiet_minutes(parse_quiet_hours("12:00-12:00"))) == WEEK_MINUTES
