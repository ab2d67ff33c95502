"""Changes of notifications: of one, the clearing of many for many callers, and undoing it.

Each comes with its events, and reaches the state of the agent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.events.events import format_moment
from storage.events.model import EventType
from storage.model import Notification, Priority
from storage.postgres.json_values import to_json
from storage.postgres.pool import Connection, Pool
from storage.postgres.statement import Statement, columns_of, from_row, values_of


def activation(
    priority: Priority,
    scheduled_for: datetime | None,
    now: datetime,
    *,
    cleared: bool = False,
    since: datetime | None = None,
) -> datetime | None:
    """Return the time at which a notification became or becomes active; None if it is low or cleared.

    `since` is its present activation; None if it has none, or if `scheduled_for` has just been changed.
    """
    if priority is not Priority.HIGH or cleared:
        return None
    if since is not None:
        return since
    return now if scheduled_for is None else max(scheduled_for, now)


# Lock the notification first, then agent_state: the triggers for other writers use the same order.
LOCK = """
SELECT n.* FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL WHERE n.id = $1
FOR NO KEY UPDATE OF n
"""

UNCHANGED = ("organization_id", "agent_id", "source", "source_id", "created_at", "urgent")
COLUMNS = columns_of(Notification, without=UNCHANGED)

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


ClearItem = tuple[UUID, UUID, datetime, str]
"""The agent, the notification, the time of its clearing, and who clears it."""

# Locked in id order. SKIP LOCKED passes over rows that another transaction holds: the caller tries again.
# The lock returns the newest version of the row, so that of two clearings only the first has an event.
# OFFSET 0 makes PostgreSQL find each row by its id, also without statistics. A notification that was cleared
# has two rows in the answer, the first one without a priority.
CLEAR = """
WITH item AS MATERIALIZED (
    SELECT i.agent_id, i.id, i.now, i.actor
    FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[]) AS i (agent_id, id, now, actor)
    CROSS JOIN LATERAL (SELECT FROM agent WHERE id = i.agent_id AND deleted_at IS NULL OFFSET 0) a
    CROSS JOIN LATERAL (SELECT FROM notification WHERE id = i.id AND agent_id = i.agent_id OFFSET 0) n
), locked AS MATERIALIZED (
    SELECT n.id, n.cleared AS was_cleared, item.now, item.actor FROM notification n JOIN item USING (id)
    ORDER BY n.id FOR NO KEY UPDATE OF n SKIP LOCKED
), updated AS (
    UPDATE notification n
    SET cleared = true, cleared_at = coalesce(n.cleared_at, locked.now), activated_at = NULL
    FROM locked WHERE n.id = locked.id
    RETURNING n.id, n.priority, n.organization_id, n.agent_id, locked.now, locked.actor, locked.was_cleared
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor)
    SELECT now, 'notification.cleared', organization_id, agent_id, event_run_id(actor), id,
           actor
    FROM updated WHERE NOT was_cleared ORDER BY id
)
SELECT agent_id, id, NULL AS priority FROM item UNION ALL SELECT agent_id, id, priority FROM updated
"""

# Locked in id order, so that two callers that clear the same notifications cannot deadlock.
CLEAR_MANY = """
WITH locked AS MATERIALIZED (
    SELECT n.id FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL
    WHERE n.agent_id = $1 AND NOT n.cleared /* and */
    ORDER BY n.id FOR NO KEY UPDATE OF n
), updated AS (
    UPDATE notification n SET cleared = true, cleared_at = $2, activated_at = NULL
    FROM locked WHERE n.id = locked.id
    RETURNING n.id, n.priority, n.organization_id
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor)
    SELECT $2, 'notification.cleared', organization_id, $1, event_run_id($3), id, $3
    FROM updated ORDER BY id
)
SELECT count(*) AS cleared, count(*) FILTER (WHERE priority = 'high') AS high FROM updated
"""


async def clear_together(
    pool: Pool, on_clear: Callable[[Sequence[UUID]], None], items: list[ClearItem]
) -> list[bool | None]:
    """Clear the notifications, and call `on_clear` with the agents that had a high one among them.

    A result is False if the agent has no such notification, None if another transaction holds its row.
    """
    rows = await pool.change(CLEAR, *zip(*items, strict=True))
    if agent_ids := {row["agent_id"] for row in rows if row["priority"] == Priority.HIGH}:
        on_clear(list(agent_ids))
    results = {(row["agent_id"], row["id"]): True if row["priority"] else None for row in rows}
    return [results.get((agent_id, id_), False) for agent_id, id_, _, _ in items]


# Locked in id order, as all statements that clear. The lock sees the newest version of each row, so that of
# two clearings only the first has an event.
CLEAR_ACTIVE = """
WITH chosen AS MATERIALIZED (
    SELECT n.id, i.agent_id FROM unnest($1::uuid[]) WITH ORDINALITY AS i (agent_id, place)
    JOIN agent a ON a.id = i.agent_id AND a.deleted_at IS NULL
    CROSS JOIN LATERAL (
        SELECT n.id FROM notification n
        WHERE n.agent_id = i.agent_id AND n.activated_at IS NOT NULL
          AND (n.activated_at <= $2 OR n.scheduled_for IS DISTINCT FROM n.activated_at)
        ORDER BY n.id LIMIT $3
    ) n
    ORDER BY i.place, n.id LIMIT $3
), locked AS MATERIALIZED (
    SELECT n.id FROM notification n WHERE n.id IN (SELECT id FROM chosen) AND NOT n.cleared
    ORDER BY n.id FOR NO KEY UPDATE
), updated AS (
    UPDATE notification n SET cleared = true, cleared_at = $2, activated_at = NULL
    FROM locked WHERE n.id = locked.id
    RETURNING n.id, n.agent_id, n.organization_id
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor)
    SELECT $2, 'notification.cleared', organization_id, agent_id, event_run_id($4), id, $4
    FROM updated ORDER BY id
)
SELECT chosen.id, chosen.agent_id, updated.id IS NOT NULL AS is_cleared
FROM chosen LEFT JOIN updated USING (id)
"""

# The notifications are locked before the states, as everywhere, and both in the order of their ids. What
# becomes active now is later than all that its agent went through before, whatever the clock says.
UNCLEAR = """
WITH locked AS MATERIALIZED (
    SELECT n.id, n.agent_id, n.organization_id, n.priority, n.scheduled_for
    FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL
    WHERE n.id = ANY($1::uuid[]) AND n.organization_id = ANY($2::uuid[]) AND n.cleared
    ORDER BY n.id FOR NO KEY UPDATE OF n
), reached AS MATERIALIZED (
    SELECT agent_id, min(scheduled_for) FILTER (WHERE scheduled_for > $3) AS due_at,
           bool_or(coalesce(scheduled_for <= $3, true)) AS is_active
    FROM locked WHERE priority = 'high' GROUP BY agent_id
), locked_state AS MATERIALIZED (
    SELECT s.agent_id, greatest(
        $3, greatest(s.last_activated_at, s.last_started_at, s.last_ended_at, s.stopped_at, s.seen_until)
            + interval '1 microsecond') AS activated_at
    FROM agent_state s WHERE s.agent_id IN (SELECT agent_id FROM reached)
    ORDER BY s.agent_id FOR NO KEY UPDATE
), updated_state AS (
    UPDATE agent_state s
    SET wake_seq = s.wake_seq + 1,
        last_activated_at = CASE WHEN reached.is_active THEN locked_state.activated_at
                                 ELSE s.last_activated_at END,
        next_due_at = CASE WHEN s.status = 'sleeping' AND s.queued_at IS NULL
                           THEN least(s.next_due_at, reached.due_at) ELSE s.next_due_at END
    FROM locked_state JOIN reached USING (agent_id) WHERE s.agent_id = locked_state.agent_id
), updated AS (
    UPDATE notification n
    SET cleared = false, cleared_at = NULL,
        activated_at = CASE WHEN locked.priority <> 'high' THEN NULL
                            WHEN locked.scheduled_for > $3 THEN locked.scheduled_for
                            ELSE locked_state.activated_at END
    FROM locked LEFT JOIN locked_state USING (agent_id) WHERE n.id = locked.id
    RETURNING n.id, n.agent_id, n.organization_id
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
    SELECT $3, 'notification.changed', organization_id, agent_id, event_run_id($4), id, $4,
           '{"fields":["cleared"]}'
    FROM updated ORDER BY id
)
SELECT id, agent_id FROM updated
"""

LIST_STATES = """
SELECT n.id, n.agent_id, n.organization_id, n.cleared
FROM notification n JOIN agent a ON a.id = n.agent_id AND a.deleted_at IS NULL
WHERE n.id = ANY($1::uuid[])
"""


@dataclass(frozen=True, slots=True)
class NotificationState:
    """Whose a notification is, and whether it is cleared."""

    id: UUID
    agent_id: UUID
    organization_id: UUID
    cleared: bool


@dataclass(frozen=True, slots=True)
class ClearedNotification:
    """A notification that was cleared or un-cleared, and its agent."""

    id: UUID
    agent_id: UUID
