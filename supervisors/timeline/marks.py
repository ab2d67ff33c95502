"""Marks: what happened to an agent beside its phases. Pure functions from events."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from storage.events.catalogue import EventType
from storage.events.marks import NotificationTimes
from storage.events.model import Event
from storage.model import Priority

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
