"""Instants as text: ISO 8601, UTC, with microseconds and `Z`."""

from datetime import UTC, datetime
from typing import overload
from zoneinfo import ZoneInfo


@overload
def format_timestamp(moment: datetime) -> str: ...
@overload
def format_timestamp(moment: None) -> None: ...


def format_timestamp(moment: datetime | None) -> str | None:
    """Format an aware datetime, such as 2026-11-21T09:00:00.000000Z; None stays None."""
    if moment is None:
        return None
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='microseconds')[:-6]}Z"


def format_local(moment: datetime, timezone: str) -> str:
    """Format an aware datetime in a time zone to the second, such as 2026-11-21T10:00:00+01:00."""
    return moment.astimezone(ZoneInfo(timezone)).isoformat(timespec="seconds")
