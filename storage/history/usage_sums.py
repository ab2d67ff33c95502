"""Where the sums of usage end and single records begin, for a period that ends between two sums."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Parts(NamedTuple):
    """A period in parts: the sums from `sums_start` to before `sums_end`, and the records around them."""

    start: datetime
    sums_start: datetime
    sums_end: datetime
    end: datetime


def divide(start: datetime, end: datetime, unit: timedelta) -> Parts:
    """Divide the period from `start` to before `end` at the limits of whole UTC hours or days.

    If it contains no whole one, there are no sums, and all records are before them.
    """
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    sums_end = _floor(end, unit)
    if sums_end <= start:
        return Parts(start, end, end, end)
    floor = _floor(start, unit)
    return Parts(start, floor if floor == start else floor + unit, sums_end, end)


def _floor(moment: datetime, unit: timedelta) -> datetime:
    hour = moment.hour if unit == HOUR else 0
    return moment.replace(hour=hour, minute=0, second=0, microsecond=0)
