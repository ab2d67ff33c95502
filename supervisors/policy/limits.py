"""Limits on wakes: how often an agent may wake in an hour and a day, and its quiet hours.

They only delay a wake. Pure functions of the limits, of the starts that fill them, and of a moment. A time of
day is one of the agent's time zone: one that a clock change skips counts by the clock before the change, and
of one that comes twice the first counts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from storage.agent_facts import WAKE_LIMITS, WakeLimits
from storage.model import Agent, Template

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
WEEK_MINUTES = 7 * DAY // MINUTE
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_NAME, CLOCK_TIME = "|".join(DAYS), "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
PERIOD = re.compile(f"(?:({DAY_NAME})(?:-({DAY_NAME}))? )?({CLOCK_TIME})-({CLOCK_TIME}|24:00)")
NO_QUIET_HOURS = '"{}" is no period of quiet hours, such as "22:00-07:00" or "Mon-Fri 22:00-07:00".'


@dataclass(frozen=True, slots=True)
class QuietPeriod:
    """A time of day that is quiet on these days of the week, on which it begins; Monday is 0."""

    days: frozenset[int]
    start: timedelta  # since midnight
    length: timedelta  # at most a day

    def on(self, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """Return when the period begins and ends that begins on this day."""
        midnight = datetime.combine(day, time())
        return _instant(midnight + self.start, zone), _instant(midnight + self.start + self.length, zone)


@dataclass(frozen=True, slots=True)
class Delay:
    """The wait of a wake from when it is due. `because` names the limit, of several the last one."""

    due_at: datetime
    until: datetime
    because: str  # the end of the wait completes the sentence


@lru_cache(256)
def parse_quiet_hours(text: str) -> tuple[QuietPeriod, ...]:
    """Return the periods of such as `Mon-Fri 22:00-07:00, Sun 00:00-24:00`; none if the text is blank.

    A period that ends no later than it begins ends on the next day. Raise ValueError with a message for
    people.
    """
    return tuple(map(_parse_period, text.split(", "))) if text else ()


def quiet_minutes(periods: Iterable[QuietPeriod]) -> set[int]:
    """Return the minutes of a week that are quiet, counted from Monday on."""
    return {
        (minute + offset) % WEEK_MINUTES
        for period in periods
        for minute in (day * DAY // MINUTE + period.start // MINUTE for day in period.days)
        for offset in range(period.length // MINUTE)
    }


def longest_quiet_minutes(limits: WakeLimits) -> int:
    """Return how many minutes quiet hours last without a break, at most."""
    quiet, longest, length = quiet_minutes(parse_quiet_hours(limits.quiet_hours)), 0, 0
    for minute in range(2 * WEEK_MINUTES if quiet else 0):
        length = length + 1 if minute % WEEK_MINUTES in quiet else 0
        longest = max(longest, length)
    return longest


def limits_of(agent: Agent, template: Template | None, changes: Mapping[str, Any]) -> WakeLimits:
    """Return the limits of an agent with changed settings, which may come from its template."""
    own = {name: changes.get(name, getattr(agent, name)) for name in WAKE_LIMITS}
    per_hour, per_day, quiet_hours = (
        getattr(template, name, None) if own[name] is None else own[name] for name in WAKE_LIMITS
    )
    return WakeLimits(per_hour, per_day, quiet_hours or "", changes.get("timezone", agent.timezone))


def filled(limits: WakeLimits, starts: Sequence[datetime], now: datetime) -> WakeLimits:
    """Return the limits with those of these starts, in their order, that fill them."""
    per_hour, per_day = limits.max_wakes_per_hour, limits.max_wakes_per_day
    if per_hour is None and per_day is None:
        return limits
    hour_at, day_at = _filling(starts, per_hour, now - HOUR), _filling(starts, per_day, now - 2 * DAY)
    return replace(limits, fills_hour_at=hour_at, fills_day_at=day_at)


def _filling(starts: Sequence[datetime], limit: int | None, after: datetime) -> datetime | None:
    """Return the start that fills a limit, if it is later than a moment."""
    start = starts[-limit] if limit and len(starts) >= limit else after
    return start if start > after else None


def delay_of(limits: WakeLimits, due_at: datetime) -> Delay | None:
    """Return how the limits delay a wake that is due at this moment; None if they allow it.

    A time zone that tzdata does not know any more counts as UTC.
    """
    periods, delay, at = parse_quiet_hours(limits.quiet_hours), None, due_at
    try:
        zone = ZoneInfo(limits.timezone)
    except (ZoneInfoNotFoundError, ValueError):
        zone = ZoneInfo("UTC")
    try:
        while (found := _limit_at(limits, periods, zone, at)) is not None:
            because, at = found
            delay = Delay(due_at, at, because)
    except OverflowError:
        return None  # nothing is quiet after the year 9999
    return delay


def _parse_period(text: str) -> QuietPeriod:
    found = PERIOD.fullmatch(text)
    if found is None:
        raise ValueError(NO_QUIET_HOURS.format(text))
    first, last, start, end = found.groups()
    first_day, last_day = DAYS.index(first or DAYS[0]), DAYS.index(last or first or DAYS[-1])
    days = ((first_day + offset) % 7 for offset in range((last_day - first_day) % 7 + 1))
    start_time, length = _since_midnight(start), (_since_midnight(end) - _since_midnight(start)) % DAY
    return QuietPeriod(frozenset(days), start_time, length or DAY)


def _since_midnight(clock_time: str) -> timedelta:
    hours, minutes = clock_time.split(":")
    return timedelta(hours=int(hours), minutes=int(minutes))


def _limit_at(
    limits: WakeLimits, periods: tuple[QuietPeriod, ...], zone: ZoneInfo, at: datetime
) -> tuple[str, datetime] | None:
    """Return a limit that allows no wake at the moment, and when it ends; None if there is none."""
    today = at.astimezone(zone).date()
    if limits.fills_day_at is not None and limits.fills_day_at.astimezone(zone).date() >= today:
        because = f"Has woken {_times(limits.max_wakes_per_day)} today, its limit; next at"
        return because, _instant(datetime.combine(today + DAY, time()), zone)
    if limits.fills_hour_at is not None and limits.fills_hour_at + HOUR > at:
        because = f"Has woken {_times(limits.max_wakes_per_hour)} within an hour, its limit; next at"
        return because, limits.fills_hour_at + HOUR
    for period in periods:
        for day in (today - DAY, today):
            start, end = period.on(day, zone)
            if day.weekday() in period.days and start <= at < end:
                return "Quiet until", end
    return None


def _times(number: int | None) -> str:
    return "once" if number == 1 else f"{number} times"


def _instant(local: datetime, zone: ZoneInfo) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC)
