"""Clearing notifications: one by one for many callers in one statement, or many of one agent."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from storage.model import Priority
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import Conditions

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
