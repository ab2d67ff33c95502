"""The judge of schedules: each moment has one outcome, is told of, and comes in time.

It counts seconds itself, without `supervisors.policy`.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from hostsvc_testing.memory.tables import Edit, Tables
from storage.notifications.schedules import NOTIFYING, Occurrence, OccurrenceOutcome, Schedule, Step
from tests.simulation.judge import REPAIR_SECONDS

INVARIANT = "Schedules"
GRACE = timedelta(seconds=60)


def differences(tables: Tables, now: datetime) -> Iterator[tuple[Schedule, str]]:
    """Yield the schedules that did something wrong, and what."""
    for schedule in tables.schedules.values():
        steps = [step for step in tables.occurrences if step.before.id == schedule.id]
        occurrences = [step.occurrence for step in steps if isinstance(step, Step) and step.occurrence]
        yield from ((schedule, what) for what in _of_moments(schedule, steps))
        yield from ((schedule, what) for what in _of_lateness(schedule, occurrences))
        yield from ((schedule, what) for what in _of_notifications(tables, schedule, occurrences))
        is_armed = tables.agent(schedule.agent_id) is not None and schedule.agent_id in tables.states
        if is_armed and schedule.next_at and schedule.next_at < now - timedelta(seconds=REPAIR_SECONDS):
            yield schedule, f"it was due at {schedule.next_at}, and nothing has happened"


def _of_moments(schedule: Schedule, steps: list[Step | Edit]) -> Iterator[str]:
    """Compare with the moments that a plain count of seconds gives, one by one."""
    every = timedelta(seconds=steps[0].before.every_seconds or 0) if steps else timedelta()
    expected, last = schedule.created_at + every, schedule.created_at
    for step in steps:
        if isinstance(step, Edit):
            every = timedelta(seconds=step.every_seconds)
            if expected > step.at:  # what is due stays due, and nothing repeats when the clock was set back
                expected = _following(schedule.created_at, every, max(step.at, last))
            continue
        occurrence = step.occurrence
        if occurrence is None:
            continue
        for _ in range(occurrence.missed_count):
            expected = _following(schedule.created_at, every, expected)
        if occurrence.occurs_at < expected:
            yield f"{occurrence.occurs_at} has occurred twice, or was counted as missed"
        if occurrence.occurs_at > expected:
            yield f"moments before {occurrence.occurs_at} were missed in silence"
        last = occurrence.occurs_at
        expected = _following(schedule.created_at, every, last)


def _following(start: datetime, every: timedelta, moment: datetime) -> datetime:
    return start + max(1, (moment - start) // every + 1) * every


def _of_lateness(schedule: Schedule, occurrences: list[Occurrence]) -> Iterator[str]:
    if schedule.late_seconds is None:
        return
    limit = timedelta(seconds=schedule.late_seconds) + GRACE
    for occurrence in occurrences:
        is_late = occurrence.decided_at - occurrence.occurs_at > limit
        if is_late and occurrence.outcome in NOTIFYING:
            yield f"{occurrence.occurs_at} has notified too late"
        if not is_late and occurrence.outcome is OccurrenceOutcome.LATE:
            yield f"{occurrence.occurs_at} was dropped, though it was in time"


def _of_notifications(tables: Tables, schedule: Schedule, occurrences: list[Occurrence]) -> Iterator[str]:
    counts: Counter[UUID] = Counter()
    for occurrence in occurrences:
        if (occurrence.outcome in NOTIFYING) != (occurrence.notification_id is not None):
            yield f"{occurrence.occurs_at} is {occurrence.outcome}, with {occurrence.notification_id}"
        if occurrence.notification_id is not None:
            counts[occurrence.notification_id] += 1
    for notification_id, count in counts.items():
        notification = tables.notifications.get(notification_id)
        if notification is not None and count > 1 and not notification.body.startswith(f"{count} times due"):
            yield f"a notification stands for {count} moments, and says {notification.body!r}"
