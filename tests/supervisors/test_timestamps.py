"""Instants as text."""

from datetime import UTC, datetime, timedelta, timezone

from supervisors.timestamps import format_local, format_timestamp


def test_instant_is_written_in_utc_with_microseconds() -> None:
    assert format_timestamp(datetime(2026, 11, 21, 9, tzinfo=UTC)) == "2026-11-21T09:00:00.000000Z"
    eastward = timezone(timedelta(hours=5, minutes=30))
    assert (
        format_timestamp(datetime(2026, 11, 21, 1, 2, 3, 4, tzinfo=eastward)) == "2026-11-20T19:32:03.000004Z"
    )


def test_no_instant_stays_none() -> None:
    assert format_timestamp(None) is None


def test_local_instant_shows_the_offset_of_its_zone() -> None:
    assert format_local(datetime(2026, 7, 1, 9, 0, 1, 5, UTC), "Europe/Vienna") == "2026-07-01T11:00:01+02:00"
