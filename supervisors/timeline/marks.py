"""What happened to an agent beside its phases (marks), and what lies ahead of it. Pure functions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from storage.agent_facts import AgentFacts
from storage.events.model import Event, EventType
from storage.events.timeline import NotificationTimes
from storage.model import AgentStatus, Priority
from supervisors.policy import explanations
from supervisors.policy.decisions import Decision, Wake, WakeCause, pending_retry_at, renewed_at

OF_NOTIFICATIONS = frozenset(
    {
        EventType.NOTIFICATION_CREATED,
        EventType.NOTIFICATION_CHANGED,
        EventType.NOTIFICATION_CLEARED,
        EventType.NOTIFICATION_DELETED,
    }
)


class Mark(NamedTuple):
    """An event beside the phases. A notification is one mark, from its arrival to its clearing.

    `title`, `priority`: those of the notification, None if the mark is about something else or it is gone.
    `actor` and `cleared_by` are those of the events.
    """

    at: datetime
    type: EventType
    event_id: int
    resource_id: UUID | None
    run_id: UUID | None
    actor: str
    data: Mapping[str, Any]
    title: str | None = None
    priority: Priority | None = None
    due_at: datetime | None = None
    cleared_at: datetime | None = None
    cleared_by: str | None = None


def notification_ids(events: Iterable[Event]) -> set[UUID]:
    """Return the ids of the notifications that the events are about."""
    return {event.resource_id for event in events if event.type in OF_NOTIFICATIONS and event.resource_id}


def marks(events: Iterable[Event], notifications: Iterable[NotificationTimes]) -> list[Mark]:
    """Return the marks of a period by time. `notifications`: those of the events that still exist."""
    times = {notification.id: notification for notification in notifications}
    found: dict[int, Mark] = {}
    arrivals: dict[UUID | None, int] = {}
    for event in sorted(events, key=lambda event: event.id):
        arrival = found.get(arrivals.get(event.resource_id, 0))
        if event.type is EventType.NOTIFICATION_CLEARED and arrival is not None:
            found[arrival.event_id] = arrival._replace(cleared_at=event.at, cleared_by=event.actor)
            continue
        found[event.id] = _mark_of(event, times)
        if event.type in {EventType.NOTIFICATION_CREATED, EventType.NOTIFICATION_CLEARED}:
            arrivals[event.resource_id] = event.id
    return sorted(found.values(), key=lambda mark: (mark.at, mark.event_id))


def _mark_of(event: Event, times: Mapping[UUID, NotificationTimes]) -> Mark:
    mark = Mark(event.at, event.type, event.id, event.resource_id, event.run_id, event.actor, event.data)
    if event.type not in OF_NOTIFICATIONS:
        return mark
    notification = times.get(event.resource_id) if event.resource_id else None
    if event.type is EventType.NOTIFICATION_CLEARED:
        mark = mark._replace(cleared_at=event.at, cleared_by=event.actor)
        mark = mark._replace(at=notification.created_at) if notification else mark
    elif event.type is EventType.NOTIFICATION_CREATED and notification:
        mark = mark._replace(cleared_at=notification.cleared_at)
    if notification is None:
        return mark
    return mark._replace(
        title=notification.title, priority=notification.priority, due_at=notification.scheduled_for
    )


class AheadKind(StrEnum):
    """A kind of moment that lies ahead of an agent."""

    WAKE = "wake"
    """The agent wakes, unless something else wakes it earlier."""
    RETRY = "retry"
    """The agent tries again after a failure or an interruption."""
    REMINDER = "reminder"
    """A reminder falls due."""
    SCHEDULE = "schedule"
    """A schedule comes."""
    CAP = "cap"
    """The longest sleep that the agent may take ends."""
    BUDGET_RENEWAL = "budget_renewal"
    """The budget of the next day begins."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A moment that lies ahead, and the reason for it. `resource_id`: the reminder or the schedule."""

    at: datetime
    kind: AheadKind
    because: str
    resource_id: UUID | None = None


def ahead(
    facts: AgentFacts,
    decision: Decision,
    reminders: Iterable[NotificationTimes],
    now: datetime,
    end: datetime,
) -> list[Ahead]:
    """Return what is decided at present for the time after `now` and before `end`, by time."""
    moments = (*_decided(facts, decision, now), *_reminders(reminders))
    return sorted((one for one in moments if now < one.at < end), key=lambda one: one.at)


def _decided(facts: AgentFacts, decision: Decision, now: datetime) -> Iterator[Ahead]:
    state = facts.state
    if state.status is AgentStatus.ARCHIVED:
        return
    wake = explanations.next_wake(decision)
    if wake is not None:
        yield Ahead(wake.at, AheadKind.WAKE, explanations.describe_cause(wake))
    retry_at = pending_retry_at(facts)
    if retry_at is not None:
        retry = Wake(retry_at, state.retry_reason, WakeCause.RETRY)
        yield Ahead(retry_at, AheadKind.RETRY, explanations.describe_cause(retry))
    if state.max_sleep_until is not None:
        yield Ahead(state.max_sleep_until, AheadKind.CAP, "The longest sleep that it may take ends.")
    if facts.budgets:
        yield Ahead(renewed_at(now), AheadKind.BUDGET_RENEWAL, "The budget of the next day begins.")


def _reminders(reminders: Iterable[NotificationTimes]) -> Iterator[Ahead]:
    for reminder in reminders:
        if reminder.scheduled_for is not None:
            because = f'The reminder "{reminder.title}" falls due.'
            yield Ahead(reminder.scheduled_for, AheadKind.REMINDER, because, reminder.id)
