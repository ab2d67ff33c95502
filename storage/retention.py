"""What is kept no longer, and how it goes: in batches, so that nobody waits for it.

Nothing here reads a table from end to end. What expires by its age is found along an index of time, of each
organization in turn where there is no other; what belongs to deleted agents, by way of these agents.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from storage.postgres.pool import Pool

LATE_WRITES = timedelta(hours=1)  # by then every write that was on its way when an agent was deleted is over

DELETE_NOTIFICATIONS = """
WITH gone AS (
    DELETE FROM notification WHERE id IN (
        SELECT id FROM notification WHERE cleared AND cleared_at < $1
        ORDER BY cleared_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_USAGE = """
WITH gone AS (
    DELETE FROM usage_record WHERE id IN (
        SELECT u.id FROM organization o CROSS JOIN LATERAL (
            SELECT id FROM usage_record WHERE organization_id = o.id AND occurred_at < $1
            ORDER BY occurred_at LIMIT $2
        ) u LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_WEBHOOKS = """
WITH gone AS (
    DELETE FROM webhook_delivery WHERE id IN (
        SELECT id FROM webhook_delivery
        WHERE next_attempt_at IS NULL AND coalesce(delivered_at, failed_at) < $1
        ORDER BY coalesce(delivered_at, failed_at) LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_SPENDING = """
WITH gone AS (
    DELETE FROM spending WHERE (owner_id, day) IN (
        SELECT owner_id, day FROM spending WHERE day < ($1::timestamptz AT TIME ZONE 'UTC')::date
        ORDER BY day LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

LIST_TRACES = """
SELECT t.id FROM organization o CROSS JOIN LATERAL (
    SELECT id FROM trace WHERE organization_id = o.id AND started_at < $1
        AND NOT EXISTS (SELECT FROM run WHERE run.id = trace.id AND run.ended_at IS NULL)
    ORDER BY started_at LIMIT $2
) t LIMIT $2
"""

LIST_TRACES_OF_DELETED = """
SELECT t.id FROM agent a JOIN trace t ON t.agent_id = a.id WHERE a.deleted_at < $1 LIMIT $2
"""

DELETE_SPANS = """
WITH doomed AS MATERIALIZED (
    SELECT id FROM span WHERE trace_id = ANY($1::uuid[]) LIMIT $2
), metadata AS (
    DELETE FROM span_metadata m USING doomed WHERE m.span_id = doomed.id
), gone AS (
    DELETE FROM span s USING doomed WHERE s.id = doomed.id
    RETURNING 1
)
SELECT count(*) FROM gone
"""

# A run goes with its trace: neither says much without the other.
DELETE_TRACES = """
WITH gone AS (
    DELETE FROM trace t WHERE t.id = ANY($1::uuid[]) AND NOT EXISTS (SELECT FROM span WHERE trace_id = t.id)
    RETURNING id
), runs AS (
    DELETE FROM run r USING gone WHERE r.id = gone.id AND r.ended_at IS NOT NULL
)
SELECT count(*) FROM gone
"""

DELETE_USAGE_OF_DELETED = """
WITH gone AS (
    DELETE FROM usage_record WHERE id IN (
        SELECT u.id FROM agent a JOIN usage_record u ON u.agent_id = a.id WHERE a.deleted_at < $1 LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_AGENTS = """
WITH gone AS (
    DELETE FROM agent WHERE id IN (
        SELECT id FROM agent a WHERE deleted_at < $1 AND emptied_at IS NOT NULL
            AND NOT EXISTS (SELECT FROM trace WHERE agent_id = a.id)
            AND NOT EXISTS (SELECT FROM usage_record WHERE agent_id = a.id)
        LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_LEFT_NOTIFICATIONS = """
WITH gone AS (
    DELETE FROM notification WHERE id IN (
        SELECT r.id FROM agent a JOIN notification r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_LEFT_RUNS = """
WITH gone AS (
    DELETE FROM run WHERE id IN (
        SELECT r.id FROM agent a JOIN run r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_LEFT_MESSAGES = """
WITH gone AS (
    DELETE FROM message WHERE id IN (
        SELECT r.id FROM agent a JOIN message r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_LEFT_CONTACTS = """
WITH gone AS (
    DELETE FROM contact WHERE id IN (
        SELECT r.id FROM agent a JOIN contact r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_LEFT_DOCUMENTS = """
WITH gone AS (
    DELETE FROM document WHERE id IN (
        SELECT r.id FROM agent a JOIN document r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_LEFT_PROJECTS = """
WITH gone AS (
    DELETE FROM project WHERE id IN (
        SELECT r.id FROM agent a JOIN project r ON r.agent_id = a.id
        WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

DELETE_LEFTOVERS = (
    DELETE_LEFT_NOTIFICATIONS,
    DELETE_LEFT_RUNS,
    DELETE_LEFT_MESSAGES,
    DELETE_LEFT_CONTACTS,
    DELETE_LEFT_DOCUMENTS,
    DELETE_LEFT_PROJECTS,
)

MARK_EMPTIED = """
UPDATE agent SET emptied_at = $1 WHERE deleted_at IS NOT NULL AND deleted_at < $2 AND emptied_at IS NULL
"""


class Retention:
    """Each deletes up to `most` rows and says how many went; at 0 there is nothing more."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def delete_notifications(self, until: datetime, most: int) -> int:
        """Those cleared before `until`."""
        return int(await self._pool.fetchval(DELETE_NOTIFICATIONS, until, most))

    async def delete_traces(self, until: datetime, most: int) -> int:
        """Those begun before `until`, with their spans and runs, but for a run that still goes on."""
        rows = await self._pool.fetch(LIST_TRACES, until, most)
        return await self._delete_traces([row["id"] for row in rows], most)

    async def delete_usage(self, until: datetime, most: int) -> int:
        """Records of before `until`."""
        return int(await self._pool.fetchval(DELETE_USAGE, until, most))

    async def delete_webhooks(self, until: datetime, most: int) -> int:
        """Those delivered or given up before `until`."""
        return int(await self._pool.fetchval(DELETE_WEBHOOKS, until, most))

    async def delete_spending(self, until: datetime, most: int) -> int:
        """What was spent on the days before that of `until`."""
        return int(await self._pool.fetchval(DELETE_SPENDING, until, most))

    async def delete_leftovers(self, now: datetime, most: int) -> int:
        """Queues, runs and channels of deleted agents. An agent found empty is not looked at again."""
        gone = 0
        for delete in DELETE_LEFTOVERS:
            if gone < most:
                gone += await self._pool.fetchval(delete, most - gone)
        if gone == 0:
            await self._pool.execute(MARK_EMPTIED, now, now - LATE_WRITES)
        return gone

    async def delete_agents(self, until: datetime, most: int) -> int:
        """The last of agents deleted before `until`: their traces, their usage, then they themselves."""
        rows = await self._pool.fetch(LIST_TRACES_OF_DELETED, until, most)
        return (
            await self._delete_traces([row["id"] for row in rows], most)
            or int(await self._pool.fetchval(DELETE_USAGE_OF_DELETED, until, most))
            or int(await self._pool.fetchval(DELETE_AGENTS, until, most))
        )

    async def _delete_traces(self, trace_ids: Sequence[UUID], most: int) -> int:
        """Spans first: one trace may have more of them than are deleted at once."""
        gone = int(await self._pool.fetchval(DELETE_SPANS, trace_ids, most)) if trace_ids else 0
        if trace_ids and gone < most:
            gone += await self._pool.fetchval(DELETE_TRACES, trace_ids)
        return gone
