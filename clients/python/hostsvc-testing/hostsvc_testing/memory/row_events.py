"""The events of notifications, agents and organizations in memory, as the statements of `storage` write."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from storage.events.model import BY_SERVICE, EventType, NewEvent
from storage.model import Notification

RUN_PREFIX = "run:"
CHANGEABLE = ("title", "body", "priority", "scheduled_for")
SHOWN_CHANGES = frozenset({"priority", "scheduled_for"})  # the event has their new values


def created(new: Notification, actor: str = BY_SERVICE) -> NewEvent:
    """Return the event of a new notification."""
    data: dict[str, Any] = {"source": new.source, "priority": new.priority}
    if new.scheduled_for is not None:
        data["scheduled_for"] = new.scheduled_for
    return _of_notification(EventType.NOTIFICATION_CREATED, new, new.created_at, actor, data)


def changes_of(
    before: Notification, after: Notification, now: datetime, actor: str = BY_SERVICE
) -> Iterator[NewEvent]:
    """Yield the events of a change: one if it is cleared, and one for its other fields."""
    fields = [name for name in CHANGEABLE if getattr(before, name) != getattr(after, name)]
    if before.cleared and not after.cleared:
        fields.append("cleared")
    if fields:
        data = {"fields": fields, **{name: getattr(after, name) for name in fields if name in SHOWN_CHANGES}}
        yield _of_notification(EventType.NOTIFICATION_CHANGED, after, now, actor, data)
    if after.cleared and not before.cleared:
        yield _of_notification(EventType.NOTIFICATION_CLEARED, after, now, actor, {})


def deleted(gone: Notification, now: datetime, actor: str = BY_SERVICE) -> NewEvent:
    """Return the event of a deleted notification."""
    return _of_notification(EventType.NOTIFICATION_DELETED, gone, now, actor, {})


def agent_event(
    type_: EventType, agent_id: UUID, at: datetime, fields: Iterable[str] = (), actor: str = BY_SERVICE
) -> NewEvent:
    """Return the event of an agent that is created, changed or deleted."""
    names = sorted(fields)
    data = orjson.dumps({"fields": names} if names else {}).decode()
    return NewEvent(type_, at, agent_id=agent_id, actor=actor, data=data)


def pause_event(at: datetime, *, paused: bool, actor: str = BY_SERVICE) -> NewEvent:
    """Return the event of an organization that is paused, or whose pause ends."""
    return NewEvent(
        EventType.ORGANIZATION_PAUSED if paused else EventType.ORGANIZATION_UNPAUSED, at, actor=actor
    )


def _of_notification(
    type_: EventType, of: Notification, at: datetime, actor: str, data: Mapping[str, Any]
) -> NewEvent:
    run_id = UUID(actor.removeprefix(RUN_PREFIX)) if actor.startswith(RUN_PREFIX) else None
    return NewEvent(
        type_,
        at,
        agent_id=of.agent_id,
        run_id=run_id,
        resource_id=of.id,
        actor=actor,
        data=orjson.dumps(data).decode(),
    )
