"""Clearing notifications: one by one for many callers in one statement, many of one agent or of many, and
undoing it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.model import Priority
from storage.postgres.paging import Chunk
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import Conditions
from storage.postgres.rows import fetch_all

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


async def clear_together(pool: Pool, items: list[ClearItem]) -> tuple[list[bool | None], list[UUID]]:
    """Clear the notifications and return the results, and the agents that had a high one among them.

    A result is False if the agent has no such notification, None if another transaction holds its row.
    """
    rows = await pool.change(CLEAR, *zip(*items, strict=True))
    agent_ids = {row["agent_id"] for row in rows if row["priority"] == Priority.HIGH}
    results = {(row["agent_id"], row["id"]): True if row["priority"] else None for row in rows}
    return [results.get((agent_id, id_), False) for agent_id, id_, _, _ in items], list(agent_ids)


async def clear_many(
    connection: Connection, agent_id: UUID, ids: Sequence[UUID] | None, now: datetime, actor: str
) -> tuple[int, int]:
    """Clear these notifications of the agent, or all that are not scheduled for later if `ids` is None.

    Return the numbers of cleared notifications and of high ones among them.
    """
    conditions = Conditions(agent_id, now, actor)
    if ids is None:
        conditions.add("(n.scheduled_for IS NULL OR n.scheduled_for <= $)", now)
    else:
        conditions.add("n.id = ANY($::uuid[])", ids)
    [row] = await connection.fetch(conditions.into(CLEAR_MANY), *conditions.parameters)
    return row["cleared"], row["high"]


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


async def clear_active(
    connection: Connection, agent_ids: Sequence[UUID], limit: int, now: datetime, actor: str
) -> Chunk[ClearedNotification]:
    """Clear what is active for the agents, one agent after the other, at most `limit` notifications.

    Return those that nobody else has cleared at the same time. The chunk is cut if there may be more.
    """
    rows = await connection.fetch(CLEAR_ACTIVE, agent_ids, now, limit, actor)
    cleared = [ClearedNotification(row["id"], row["agent_id"]) for row in rows if row["is_cleared"]]
    return Chunk(cleared, is_cut=len(rows) == limit)


async def unclear(
    connection: Connection, ids: Sequence[UUID], allowed: Sequence[UUID], now: datetime, actor: str
) -> list[ClearedNotification]:
    """Put cleared notifications of the `allowed` organizations back, and reach their agents."""
    return await fetch_all(connection, ClearedNotification, UNCLEAR, ids, allowed, now, actor)
