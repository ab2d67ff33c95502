"""Changes of one notification: what it becomes, the state of its agent, and the events of the change."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.events.catalogue import EventType
from storage.events.events import format_moment
from storage.model import Notification
from storage.notifications.inserts import activation
from storage.postgres.json_values import to_json
from storage.postgres.pool import Connection
from storage.postgres.rows import from_row
from storage.postgres.statement import Columns, Statement, values_of

# Lock the notification first, then agent_state: the triggers for other writers use the same order.
LOCK = """
SELECT n.* FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL WHERE n.id = $1
FOR NO KEY UPDATE OF n
"""

COLUMNS: Columns[Notification] = {
    "id": lambda changed: changed.id,
    "title": lambda changed: changed.title,
    "body": lambda changed: changed.body,
    "priority": lambda changed: changed.priority,
    "scheduled_for": lambda changed: changed.scheduled_for,
    "cleared": lambda changed: changed.cleared,
    "cleared_at": lambda changed: changed.cleared_at,
    "activated_at": lambda changed: changed.activated_at,
}

UPDATE = Statement(
    """
WITH updated AS (
    UPDATE notification
    SET title = :title, body = :body, priority = :priority, scheduled_for = :scheduled_for,
        cleared = :cleared, cleared_at = :cleared_at, activated_at = :activated_at
    WHERE id = :id
    RETURNING organization_id, agent_id
)
INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
SELECT :now, e.type, organization_id, agent_id, event_run_id(:actor), :id, :actor, e.data::json
FROM updated
CROSS JOIN unnest(:event_type::text[], :event_data::text[]) WITH ORDINALITY AS e (type, data, ordinal)
ORDER BY e.ordinal
    """,
    [*COLUMNS, "now", "actor", "event_type", "event_data"],
)

SCHEDULE = """
UPDATE agent_state
SET wake_seq = wake_seq + 1,
    next_due_at = CASE WHEN status = 'sleeping' AND queued_at IS NULL
                       THEN least(next_due_at, $2) ELSE next_due_at END
WHERE agent_id = $1
"""

# As for a new notification: later than all that the agent went through before, whatever the clock says.
ACTIVATE = """
UPDATE agent_state
SET wake_seq = wake_seq + 1,
    last_activated_at = greatest(
        $2, greatest(last_activated_at, last_started_at, last_ended_at, stopped_at, seen_until)
            + interval '1 microsecond')
WHERE agent_id = $1
RETURNING last_activated_at
"""

FIELDS = ("title", "body", "priority", "scheduled_for")


async def update_locked(
    connection: Connection, notification_id: UUID, changes: Mapping[str, Any], now: datetime, actor: str
) -> tuple[Notification, Notification] | None:
    """Change the notification under a lock; return it before and after, None if it does not exist."""
    row = await connection.fetchrow(LOCK, notification_id)
    if row is None:
        return None
    before = from_row(Notification, row)
    after = _changed(before, changes, now)
    if after.activated_at is not None and after.activated_at != before.activated_at:
        after = await _reach_agent(connection, after, now)
    events = _events(before, after)
    statement = UPDATE.given(
        values_of(COLUMNS, after),
        now=now,
        actor=actor,
        event_type=[type_ for type_, _ in events],
        event_data=[data for _, data in events],
    )
    await connection.execute(*statement)
    return before, after


def _events(before: Notification, after: Notification) -> list[tuple[EventType, str]]:
    """Return the types and the data of the events of the change; none if nothing has changed."""
    events = []
    fields = [name for name in FIELDS if getattr(before, name) != getattr(after, name)]
    if before.cleared and not after.cleared:
        fields.append("cleared")
    if fields:
        data: dict[str, Any] = {"fields": fields}
        if "priority" in fields:
            data["priority"] = after.priority
        if "scheduled_for" in fields:
            data["scheduled_for"] = after.scheduled_for and format_moment(after.scheduled_for)
        events.append((EventType.NOTIFICATION_CHANGED, to_json(data).decode()))
    if after.cleared and not before.cleared:
        events.append((EventType.NOTIFICATION_CLEARED, "{}"))
    return events


def _changed(before: Notification, changes: Mapping[str, Any], now: datetime) -> Notification:
    after = replace(before, **changes)
    cleared_at = (before.cleared_at or now) if after.cleared else None
    since = before.activated_at if after.scheduled_for == before.scheduled_for else None
    activated_at = activation(after.priority, after.scheduled_for, now, cleared=after.cleared, since=since)
    return replace(after, cleared_at=cleared_at, activated_at=activated_at)


async def _reach_agent(connection: Connection, changed: Notification, now: datetime) -> Notification:
    """Update the state of the agent for which this notification becomes active, now or later.

    Return the notification with the time at which it is stored as activated.
    """
    if changed.activated_at is not None and changed.activated_at == changed.scheduled_for:
        due_at = changed.activated_at if changed.activated_at > now else None
        await connection.execute(SCHEDULE, changed.agent_id, due_at)
        return changed
    activated_at = await connection.fetchval(ACTIVATE, changed.agent_id, changed.activated_at)
    return replace(changed, activated_at=activated_at)
