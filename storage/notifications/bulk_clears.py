"""Clearing what is active for many agents, and undoing it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.postgres.paging import Chunk
from storage.postgres.pool import Connection
from storage.postgres.rows import fetch_all

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
