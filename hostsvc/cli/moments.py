"""Moments in the past as people type them, such as "10m", "yesterday 03:00" or an ISO 8601 timestamp."""

import re
from datetime import UTC, datetime, time, timedelta

FORMS = '"10m", "2h", "3 days ago", "03:00", "today 03:00", "yesterday 03:00" or "2026-11-21T03:00:00Z"'

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
AGO = re.compile(
    r"(\d{1,6})\s*(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?)(?:\s+ago)?"
)
TIME_OF_DAY = re.compile(r"(?:(today|yesterday)\s+)?(\d{1,2}:\d{2}(?::\d{2})?)")


class InvalidMoment(ValueError):
    """The text names no moment; the message says which forms do."""


def parse_moment(text: str, now: datetime) -> datetime:
    """Return the moment in UTC. `now` is aware; times of day are those of this machine's time zone.

    A time without a day is the last one before `now`. Raise InvalidMoment.
    """
    words = " ".join(text.lower().split())
    try:
        if ago := AGO.fullmatch(words):
            return now.astimezone(UTC) - timedelta(**{UNITS[ago[2][0]]: int(ago[1])})
        if match := TIME_OF_DAY.fullmatch(words):
            return _at_time_of_day(match[1], _time_of(match[2]), now)
        return datetime.fromisoformat(text.strip()).astimezone(UTC)  # without an offset: local
    except (ValueError, OverflowError):
        raise InvalidMoment(f"{text!r} is no moment; write it as {FORMS}") from None


def _at_time_of_day(day: str | None, at: time, now: datetime) -> datetime:
    today = now.astimezone().date()
    moment = _local(datetime.combine(today, at))
    if day == "yesterday" or (day is None and moment > now):
        return _local(datetime.combine(today - timedelta(days=1), at))
    return moment


def _time_of(text: str) -> time:
    hour, _, rest = text.partition(":")
    return time.fromisoformat(f"{hour:0>2}:{rest}")


def _local(moment: datetime) -> datetime:
    """Read a moment without a zone as one of this machine's zone, with the offset of that day."""
    return moment.astimezone(UTC)
