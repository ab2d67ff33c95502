"""Schedules: when they occur, what an occurrence leads to, and how they are said. Pure functions.

Cron expressions have five fields and the rules of Debian's cron at changes of the clock, by cronsim: a time
that the clock skips comes right after the gap, one that it shows twice comes once, and hours that are written
with a star follow real time.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice, pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from cronsim import CronSim, CronSimError

from storage.agents.overviews import ScheduleWithoutZone
from storage.model import Priority
from storage.notifications.schedules import (
    DueSchedule,
    Occurrence,
    OccurrenceOutcome,
    OnlyIf,
    PausedReason,
    Schedule,
    Step,
    WakeIf,
)
from supervisors.policy.explanations import when
from supervisors.policy.limits import Delay
from supervisors.text import cut, excerpt

SECOND = timedelta(seconds=1)
LATE_GRACE = timedelta(seconds=60)  # a restart takes less
MAX_MISSED = 100  # of one outage, that are counted one by one
MIN_APART = timedelta(minutes=5)  # of the moments of a schedule that an agent makes
LOOKED_AT = 100  # moments, in which two that are too close are found
FIELDS = 5
MAX_TITLE = 100
MAX_WATCH = timedelta(days=30)  # until a schedule with a check ends
WATCH_ENDS = "A schedule with a check ends at most 30 days from now. Set ends_at again to renew it."
WARNED_FAILURES = 3  # of checks in a row
MAX_ANSWER = 2000  # characters of an answer that are kept, to show what has changed
MAX_ANSWER_PART = 500  # characters of an answer in a notification
NEVER = "It never comes."
ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime(9998, 12, 31, tzinfo=UTC)  # local times can still be written
# A zone that is none, whoever wrote it (ZoneInfo("Europe") finds a folder), or an expression that another
# version of cronsim refuses.
UNKNOWN = (KeyError, ValueError, OSError, CronSimError)
TWO_DAYS = (
    "Both the day of the month and the day of the week are restricted: cron takes a day that fits either of "
    "them. For a certain weekday of the month, write a star and, say, MON#1 for its first Monday."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a tool to a check: a JSON value, or an error."""

    value: Any = None
    error: str = ""


class BadSchedule(ValueError):
    """The `field` of a schedule is wrong; the message says why."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def changed(schedule: Schedule, values: Mapping[str, Any], now: datetime) -> Schedule:
    """Return the schedule with these settings, and `paused`, and with its next moment. Raise BadSchedule.

    The search for it takes up to 50 ms, so call this in a thread. One of `cron` and `every_seconds` takes
    the place of the other. An occurrence that is due stays due.
    """
    is_new = schedule.next_at is None and not schedule.paused_reason
    settings = {name: value for name, value in values.items() if name != "paused"}
    for name, other in (("cron", "every_seconds"), ("every_seconds", "cron")):
        if settings.get(name) is not None:
            settings.setdefault(other, None)
    is_paused = values.get("paused", schedule.paused_reason is PausedReason.MANUAL)
    after = replace(
        schedule, **settings, paused_reason=PausedReason.MANUAL if is_paused else PausedReason.NONE
    )
    _check_timing(after)
    if after.watch is not None and (after.ends_at is None or after.ends_at > now + MAX_WATCH):
        raise BadSchedule("ends_at", WATCH_ENDS)
    if after.watch != schedule.watch:
        after = replace(after, answer_digest="", answer="", failed_count=0)
    planned = _planned(after, _unplanned_since(schedule, now))
    if planned.next_at is None and planned.paused_reason is not PausedReason.TIMEZONE:
        if next_after(replace(after, ends_at=None, max_occurrences=None), now) is None:
            raise BadSchedule("cron", NEVER)
        if is_new:
            raise BadSchedule("ends_at", "It does not come before that.")
    if schedule.next_at is not None and schedule.next_at <= now:
        return _armed(after, schedule.next_at)
    return planned


def _check_timing(schedule: Schedule) -> None:
    if (schedule.cron is None) == (schedule.every_seconds is None):
        raise BadSchedule("cron", "Give exactly one of cron and every_seconds.")
    if schedule.cron is not None and len(schedule.cron.split()) != FIELDS:
        raise BadSchedule("cron", "Write five fields: minute, hour, day of month, month, day of week.")
    try:
        CronSim(schedule.cron or "* * * * *", ANY_TIME)
    except CronSimError as error:
        raise BadSchedule("cron", f"This is no cron expression: {error}.") from error


def jitter(schedule: Schedule) -> timedelta:
    """Return how much later than planned it notifies: the same each time, by a hash of its id."""
    digest = int.from_bytes(sha256(schedule.id.bytes).digest()[:8])
    return timedelta(seconds=digest % (schedule.jitter_seconds + 1))


def comes_at(schedule: Schedule) -> datetime | None:
    """Return when it notifies next, with its jitter; None if it has no further occurrence."""
    return None if schedule.next_at is None else schedule.next_at + jitter(schedule)


# When it occurs


def next_after(schedule: Schedule, moment: datetime) -> datetime | None:
    """Return the first occurrence after the moment; None if there is none."""
    return next(moments_after(schedule, moment), None)


def moments_after(schedule: Schedule, moment: datetime) -> Iterator[datetime]:
    """Yield the occurrences after the moment, until the schedule or the calendar ends."""
    limit = schedule.max_occurrences
    end = LAST_MOMENT if schedule.ends_at is None else min(schedule.ends_at, LAST_MOMENT)
    moments = _every(schedule, moment) if schedule.every_seconds else _cron(schedule, moment)
    try:
        for found in islice(moments, None if limit is None else max(0, limit - schedule.notified_count)):
            if found > end:
                return
            yield found
    except OverflowError:
        return


def _every(schedule: Schedule, moment: datetime) -> Iterator[datetime]:
    start, every = _interval(schedule)
    found = start + max(0, (moment - start) // every + 1) * every
    while True:
        yield found
        found += every


def _interval(schedule: Schedule) -> tuple[datetime, timedelta]:
    """Return the first moment, by default an interval after the creation, and the real time between two."""
    every = timedelta(seconds=schedule.every_seconds or 0)
    return schedule.starts_at or schedule.created_at + every, every


def _cron(schedule: Schedule, moment: datetime) -> Iterator[datetime]:
    """Search from the moment, or from the start of the schedule, which may be an occurrence itself.

    While the clock shows times again, cronsim begins with those that have passed.
    """
    after = moment if schedule.starts_at is None else max(moment, schedule.starts_at - SECOND)
    zone = ZoneInfo(schedule.effective_timezone)
    for local in CronSim(schedule.cron or "", after.astimezone(zone)):
        found = local.astimezone(UTC)
        if found > after:
            yield found


def latest_until(schedule: Schedule, first: datetime, now: datetime) -> datetime:
    """Return the last occurrence until now, by one step backward; `first` is one that has passed."""
    now = now if schedule.ends_at is None else min(now, schedule.ends_at)
    if schedule.every_seconds:
        start, every = _interval(schedule)
        return max(first, start + (now - start) // every * every)
    zone = ZoneInfo(schedule.effective_timezone)
    end = now.replace(microsecond=0) + SECOND  # cronsim begins before it
    local = next(CronSim(schedule.cron or "", end.astimezone(zone), reverse=True), None)
    latest = first if local is None else local.astimezone(UTC)
    return latest if first <= latest <= now else first


def count_missed(schedule: Schedule, first: datetime, latest: datetime) -> int:
    """Count the occurrences from the first on before the latest; by a cron expression at most MAX_MISSED."""
    if first == latest:
        return 0
    if schedule.every_seconds:
        return -((first - latest) // timedelta(seconds=schedule.every_seconds))
    unlimited = replace(schedule, max_occurrences=None)
    found = takewhile(lambda moment: moment < latest, moments_after(unlimited, first))
    return 1 + sum(1 for _ in islice(found, MAX_MISSED - 1))


def too_close(schedule: Schedule, now: datetime) -> tuple[datetime, datetime] | None:
    """Return two moments in a row that are less than MIN_APART apart, if there are any among the next."""
    moments = islice(moments_after(schedule, now), LOOKED_AT)
    return next((pair for pair in pairwise(moments) if pair[1] - pair[0] < MIN_APART), None)


# What falls due


def fall_due(
    schedule: DueSchedule, now: datetime, checked: OccurrenceOutcome = OccurrenceOutcome.FIRED
) -> Step:
    """Decide what follows for a schedule that must be looked at.

    However many occurrences have passed, the latest stands for all of them. If it would fire, its outcome is
    the `checked` one.
    """
    first, until = schedule.next_at, now - jitter(schedule)
    if first is None or first > until:
        return Step(schedule, _planned(schedule, _unplanned_since(schedule, until)))
    latest, missed, after = first, 0, _planned(schedule, first)
    if after.next_at is not None and after.next_at <= until:
        latest = latest_until(schedule, first, until)
        missed, after = count_missed(schedule, first, latest), _planned(schedule, until)
    outcome = _outcome(schedule, latest, now)
    outcome = checked if outcome is OccurrenceOutcome.FIRED else outcome
    if outcome is OccurrenceOutcome.FIRED and schedule.notified_count + 1 == schedule.max_occurrences:
        after = _armed(after, None)
    occurrence = Occurrence(schedule.id, latest, outcome, now, missed)
    return Step(schedule, after, occurrence, _text(schedule, occurrence), _merged_text(schedule, occurrence))


def _armed(schedule: Schedule, next_at: datetime | None) -> Schedule:
    """Return the schedule with this next moment; without one it is paused, because it has ended."""
    reason = schedule.paused_reason
    if reason is PausedReason.TIMEZONE:
        reason = PausedReason.NONE
    if next_at is None:
        return replace(schedule, next_at=None, due_at=None, paused_reason=reason or PausedReason.ENDED)
    return replace(schedule, next_at=next_at, due_at=next_at + jitter(schedule), paused_reason=reason)


def _unplanned_since(schedule: Schedule, now: datetime) -> datetime:
    """Return the time after which it is planned again, also if the clock has been set back."""
    return max(now, schedule.last_at or now)


def _planned(schedule: Schedule, after: datetime) -> Schedule:
    """Return the schedule with its next moment after this one. An unknown zone stops it."""
    try:
        return _armed(schedule, next_after(schedule, after))
    except UNKNOWN:
        return replace(schedule, next_at=None, due_at=None, paused_reason=PausedReason.TIMEZONE)


def _outcome(schedule: DueSchedule, latest: datetime, now: datetime) -> OccurrenceOutcome:
    late = now - latest - jitter(schedule)
    if schedule.shown_reason is not PausedReason.NONE:
        return OccurrenceOutcome.PAUSED
    if schedule.late_seconds is not None and late > timedelta(seconds=schedule.late_seconds) + LATE_GRACE:
        return OccurrenceOutcome.LATE
    return OccurrenceOutcome.FIRED if schedule.something_waits else OccurrenceOutcome.NOTHING_WAITING


def after_check(schedule: DueSchedule, answer: Answer, now: datetime) -> Step:
    """Decide what follows for a schedule that is due now from the answer to its check.

    A long answer takes up to 20 ms, so call this in a thread.
    """
    judged = _failed(schedule, answer.error) if answer.error else _answered(schedule, answer.value)
    outcome, changes, text = judged
    step = fall_due(schedule, now, outcome)
    if step.occurrence is None:
        return step
    has_failed = outcome is OccurrenceOutcome.FAILED and changes["failed_count"] == WARNED_FAILURES
    told = replace(schedule, body=f"{text}\n\n{schedule.body}".strip())
    return replace(
        step,
        after=replace(step.after, **changes),
        text=_text(told, step.occurrence),
        merged_text=_merged_text(told, step.occurrence),
        warns=has_failed and (schedule.watch or {})["wake_if"] != WakeIf.ERROR,
    )


def _failed(schedule: Schedule, error: str) -> tuple[OccurrenceOutcome, dict[str, Any], str]:
    count, watch = schedule.failed_count + 1, schedule.watch or {}
    wakes = count == 1 and watch["wake_if"] == WakeIf.ERROR
    outcome = OccurrenceOutcome.FIRED if wakes else OccurrenceOutcome.FAILED
    times = "" if count == 1 else f" {count} times in a row"
    text = f"{watch['tool']} has failed{times}: {excerpt(error, MAX_ANSWER_PART)}"
    return outcome, {"failed_count": count}, text


def _answered(schedule: Schedule, value: Any) -> tuple[OccurrenceOutcome, dict[str, Any], str]:
    watch, text = schedule.watch or {}, orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    digest = sha256(text.encode()).hexdigest()
    is_empty = (value.strip() if isinstance(value, str) else value) in (None, "", [], {})
    may_wake = {WakeIf.CHANGED: schedule.answer_digest != "", WakeIf.NONEMPTY: not is_empty}
    wakes = digest != schedule.answer_digest and may_wake.get(watch["wake_if"], False)
    changes = {"answer_digest": digest, "answer": text[:MAX_ANSWER], "failed_count": 0}
    outcome = OccurrenceOutcome.FIRED if wakes else OccurrenceOutcome.UNCHANGED
    return outcome, changes, _difference(watch["tool"], schedule.answer, text)


def _difference(tool: str, before: str, now: str) -> str:
    """Say what has changed in an answer, from a little before the first difference."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    start = max(0, sum(1 for _ in same) - MAX_ANSWER_PART // 5)
    parts = [f"{'…' * bool(start)}{cut(each[start:], MAX_ANSWER_PART)}" for each in (before, now)]
    return f"{tool} answered: {parts[1]}\nBefore: {parts[0] or 'nothing'}"


def run_now(schedule: Schedule, now: datetime) -> Step:
    """Return the step of a request to notify at once, which leaves the next moment as it is."""
    occurrence = Occurrence(schedule.id, now, OccurrenceOutcome.MANUAL, now, 0)
    return Step(schedule, schedule, occurrence, schedule.body, _merged_text(schedule, occurrence))


def _text(schedule: Schedule, occurrence: Occurrence) -> str:
    """Return the body, after a line about what is late or was missed."""
    late = occurrence.decided_at - occurrence.occurs_at - jitter(schedule)
    if late <= LATE_GRACE and not occurrence.missed_count:
        return schedule.body
    line = f"It was due at {local_time(schedule, occurrence.occurs_at)}, {length_of(late)} ago."
    return f"{line}{_missed(schedule, occurrence)}\n\n{schedule.body}".strip()


def _merged_text(schedule: Schedule, occurrence: Occurrence) -> str:
    last = local_time(schedule, occurrence.occurs_at)
    line = f"{schedule.merged_count + 1} times due without being cleared, the last at {last}."
    return f"{line}{_missed(schedule, occurrence)}\n\n{schedule.body}".strip()


def _missed(schedule: Schedule, occurrence: Occurrence) -> str:
    count = occurrence.missed_count
    number = f"At least {count}" if schedule.cron and count >= MAX_MISSED else str(count)
    return f" {number} earlier {'time was' if count == 1 else 'times were'} missed." if count else ""


# How it is said


def says(schedule: Schedule) -> str:
    """Say in words when it occurs, such as "At 9:00, Monday to Friday, Vienna time"."""
    if schedule.every_seconds:
        return f"Every {length_of(timedelta(seconds=schedule.every_seconds)).removeprefix('1 ')}"
    words = CronSim(schedule.cron or "", ANY_TIME).explain()
    words = re.sub(r"\b0(\d:)", r"\1", words).replace(" through ", " to ")
    either = " or on " if hint_of(schedule) else " and on "
    words = words.replace(" and on ", either).replace(" on ", ", ", 1).replace(" every day", ", every day")
    return f"{words}, {zone_name(schedule.effective_timezone)}"


def zone_name(timezone: str) -> str:
    """Return the time zone in words: Vienna time."""
    return (
        "UTC" if timezone in {"UTC", "Etc/UTC"} else f"{timezone.rpartition('/')[2].replace('_', ' ')} time"
    )


def hint_of(schedule: Schedule) -> str:
    """Return a warning about two restricted day fields; blank if there is nothing to say."""
    if schedule.cron is None:
        return ""
    _, _, day, _, weekday = schedule.cron.split()
    return "" if day.startswith("*") or weekday.startswith("*") else TWO_DAYS


def upcoming(schedule: Schedule, now: datetime, count: int) -> list[datetime]:
    """Return the next occurrences; none while it is paused."""
    if schedule.shown_reason is not PausedReason.NONE:
        return []
    try:
        return list(islice(moments_after(schedule, now), count))
    except UNKNOWN:
        return []


def local_time(schedule: Schedule, moment: datetime) -> str:
    """Write a moment in the zone of the schedule: 2026-11-24 9:00 Vienna time."""
    try:
        local = moment.astimezone(ZoneInfo(schedule.effective_timezone))
    except UNKNOWN:
        return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"{local:%Y-%m-%d} {local.hour}:{local:%M} {zone_name(schedule.effective_timezone)}"


def length_of(period: timedelta) -> str:
    """Write a period in its largest unit that divides it, else in minutes: 2 hours, 90 minutes."""
    seconds = max(1, round(period.total_seconds()))
    if seconds > 2 * 3600 and seconds % 60:
        seconds -= seconds % 60
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
    size, unit = next((size, unit) for size, unit in units if seconds % size == 0)
    count = seconds // size
    return f"{count} {unit}{'' if count == 1 else 's'}"


def soonest(schedules: Iterable[Schedule]) -> Schedule | None:
    """Return the schedule that wakes its agent next; None if none does."""
    waking = (
        each
        for each in schedules
        if each.priority is Priority.HIGH and each.watch is None and not each.shown_reason
    )
    by_moment = {moment: each for each in waking if (moment := comes_at(each)) is not None}
    return by_moment[min(by_moment)] if by_moment else None


def why_wakes(schedule: Schedule) -> str:
    """Say that a schedule wakes its agent, when, and on which condition."""
    local = local_time(schedule, comes_at(schedule) or LAST_MOMENT)
    condition = "" if schedule.only_if is OnlyIf.ALWAYS else ", if anything waits"
    return f'The schedule "{excerpt(schedule.title, MAX_TITLE)}" wakes it at {local}{condition}.'


def why_wakes_later(schedule: Schedule, delay: Delay) -> str:
    """Say that a schedule comes while a limit holds its agent, and until when."""
    return f"{because_of(schedule.title)} {delay.because} {when(delay.until)}."


def because_of(title: str) -> str:
    """Say which schedule comes."""
    return f'The schedule "{excerpt(title, MAX_TITLE)}" comes.'


def why_stopped(schedule: ScheduleWithoutZone) -> str:
    """Say that nobody knows when a schedule comes, and what helps."""
    lost = (
        f"its time zone {schedule.lost_timezone} is not known any more. Give it, or its agent, another one."
    )
    return f'The schedule "{excerpt(schedule.title, MAX_TITLE)}" has stopped: {lost}'
