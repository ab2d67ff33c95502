"""Deletion of rows whose retention is over, in batches, so that no other statement waits for long.

No statement here reads a whole table. Rows that expire by age are found along an index on time, of each
organization in turn if there is no other index; rows of deleted agents are found through these agents.
"""

from datetime import datetime, timedelta
from functools import partial

from storage.postgres.pool import Pool
from storage.postgres.statement import delete_rows

LATE_WRITES = timedelta(hours=1)  # every write in flight when an agent was deleted has ended by then

DELETE_NOTIFICATIONS = """
DELETE FROM notification WHERE id IN (
    SELECT id FROM notification WHERE cleared AND cleared_at < $1
    ORDER BY cleared_at LIMIT $2 FOR UPDATE SKIP LOCKED)
"""

DELETE_USAGE = """
DELETE FROM usage_record WHERE id IN (
    SELECT u.id FROM organization o CROSS JOIN LATERAL (
        SELECT id FROM usage_record WHERE organization_id = o.id AND occurred_at < $1
        ORDER BY occurred_at LIMIT $2
    ) u LIMIT $2)
"""

DELETE_WEBHOOKS = """
DELETE FROM webhook_delivery WHERE id IN (
    SELECT id FROM webhook_delivery
    WHERE next_attempt_at IS NULL AND coalesce(delivered_at, failed_at) < $1
    ORDER BY coalesce(delivered_at, failed_at) LIMIT $2 FOR UPDATE SKIP LOCKED)
"""

DELETE_PARKED_CALLS = """
DELETE FROM parked_call WHERE id IN (
    SELECT id FROM parked_call WHERE ended_at < $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)
"""

DELETE_DOCUMENTS = """
DELETE FROM document WHERE id IN (
    SELECT id FROM document WHERE deleted_at < $1 ORDER BY deleted_at LIMIT $2 FOR UPDATE SKIP LOCKED)
"""

# The log is deleted from its beginning, so that a reader whose cursor is among the deleted events can tell.
# If the clock was set back, younger events may stand before older ones, and go with them. No audited one goes
# before the audit log has it, nor what follows it. The others need not wait for that: where little happens,
# the position of the audit log is behind for months.
DELETE_EVENTS = """
DELETE FROM event WHERE id <= (
    SELECT max(id) FROM (SELECT id, at FROM event ORDER BY id LIMIT $2) oldest
    WHERE at < $1 AND id < coalesce((
        SELECT id FROM event WHERE id > (SELECT chained_event_id FROM instance) AND is_audited(type)
        ORDER BY id LIMIT 1
    ), id + 1))
"""

# From the beginning, so that the chain stays whole. The last entry stays: the next one continues from it. A
# trigger refuses anything else, by the clock of the database.
DELETE_AUDIT = """
DELETE FROM audit_entry WHERE id IN (
    SELECT id FROM audit_entry JOIN (
        SELECT organization_id, max(number) AS last,
               min(number) FILTER (WHERE created_at >= least($1, now() - interval '1 day')) AS kept
        FROM audit_entry GROUP BY organization_id
    ) chain USING (organization_id)
    WHERE number < coalesce(kept, last) ORDER BY organization_id, number LIMIT $2)
"""

DELETE_SPENDING = """
DELETE FROM spending WHERE (owner_id, day) IN (
    SELECT owner_id, day FROM spending WHERE day < ($1::timestamptz AT TIME ZONE 'UTC')::date
    ORDER BY day LIMIT $2)
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
WITH expired AS MATERIALIZED (
    SELECT id FROM span WHERE trace_id = ANY($1::uuid[]) LIMIT $2
), metadata AS (
    DELETE FROM span_metadata m USING expired WHERE m.span_id = expired.id
)
DELETE FROM span s USING expired WHERE s.id = expired.id
"""

# A run is deleted with its trace: neither is of much use without the other.
DELETE_TRACES = """
WITH deleted AS (
    DELETE FROM trace t WHERE t.id = ANY($1::uuid[]) AND NOT EXISTS (SELECT FROM span WHERE trace_id = t.id)
    RETURNING id
), runs AS (
    DELETE FROM run r USING deleted WHERE r.id = deleted.id AND r.ended_at IS NOT NULL
), sizes AS (
    DELETE FROM trace_size s USING deleted WHERE s.trace_id = deleted.id
)
SELECT count(*) FROM deleted
"""

# The retention of a trace's content is that of the template it was recorded under, which may be deleted. The
# templates are found by going from one to the next along the index.
LIST_TRACES_WITH_CONTENT = """
WITH RECURSIVE recorded AS (
    (SELECT content_template AS id FROM trace_size WHERE content_at IS NOT NULL
     ORDER BY content_template LIMIT 1)
    UNION ALL
    SELECT (SELECT content_template FROM trace_size WHERE content_at IS NOT NULL AND content_template > r.id
            ORDER BY content_template LIMIT 1)
    FROM recorded r WHERE r.id IS NOT NULL
), kept AS (
    SELECT r.id, coalesce(t.content_days, $2::integer) AS days FROM recorded r
    LEFT JOIN template t ON t.id = r.id WHERE r.id IS NOT NULL
)
SELECT s.trace_id AS id FROM kept CROSS JOIN LATERAL (
    SELECT trace_id FROM trace_size
    WHERE content_template = kept.id AND content_at < $1::timestamptz - make_interval(days => kept.days)
        AND NOT EXISTS (SELECT FROM run WHERE run.id = trace_id AND run.ended_at IS NULL)
    ORDER BY content_at LIMIT $3
) s
WHERE kept.days > 0 LIMIT $3
"""

REMOVE_CONTENT = """
UPDATE span_metadata SET content = NULL, instructions = NULL, tools = NULL WHERE span_id IN (
    SELECT m.span_id FROM span s JOIN span_metadata m ON m.span_id = s.id
    WHERE s.trace_id = ANY($1::uuid[]) AND m.content IS NOT NULL LIMIT $2)
"""

MARK_WITHOUT_CONTENT = """
UPDATE trace_size SET content_at = NULL, content_template = NULL WHERE trace_id = ANY($1::uuid[])
"""

# Two days more than any content that refers to it: the last use is noted once a day.
DELETE_SHARED_CONTENT = """
DELETE FROM shared_content WHERE (organization_id, digest) IN (
    SELECT c.organization_id, c.digest FROM organization o
    CROSS JOIN LATERAL (
        SELECT greatest(
            $2::integer, max(CASE content_days WHEN 0 THEN $3::integer ELSE content_days END)
        ) AS days
        FROM template WHERE organization_id = o.id
    ) kept
    CROSS JOIN LATERAL (
        SELECT organization_id, digest FROM shared_content
        WHERE organization_id = o.id AND used_at < $1::timestamptz - make_interval(days => kept.days + 2)
        ORDER BY used_at LIMIT $4
    ) c
    LIMIT $4)
"""

DELETE_USAGE_OF_DELETED = """
DELETE FROM usage_record WHERE id IN (
    SELECT u.id FROM agent a JOIN usage_record u ON u.agent_id = a.id WHERE a.deleted_at < $1 LIMIT $2)
"""

DELETE_TURNS = """
DELETE FROM transcript_turn WHERE id IN (
    SELECT id FROM transcript_turn WHERE NOT carried AND created_at < $1
    ORDER BY created_at LIMIT $2)
"""

DELETE_AGENTS = """
DELETE FROM agent WHERE id IN (
    SELECT id FROM agent a WHERE deleted_at < $1 AND emptied_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM trace WHERE agent_id = a.id)
        AND NOT EXISTS (SELECT FROM usage_record WHERE agent_id = a.id)
    LIMIT $2)
"""

# The pieces of files are long, so a batch holds few of them. They go before the messages: the deletion of a
# message deletes its files with it.
DELETE_ATTACHMENT_CHUNKS = """
DELETE FROM attachment_chunk WHERE (attachment_id, position) IN (
    SELECT c.attachment_id, c.position FROM agent a
    JOIN attachment t ON t.agent_id = a.id JOIN attachment_chunk c ON c.attachment_id = t.id
    WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
"""

ROWS_PER_CHUNK = 32  # how many rows of other tables take as long to delete as a piece of a file

DELETE_OF_DELETED = """
DELETE FROM {table} WHERE id IN (
    SELECT r.id FROM agent a JOIN {table} r ON r.agent_id = a.id
    WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
"""

# Its indexes are by agent and whether a turn is carried.
DELETE_TURNS_OF_DELETED = """
DELETE FROM transcript_turn WHERE id IN (
    SELECT r.id FROM agent a CROSS JOIN LATERAL (
        SELECT id FROM transcript_turn WHERE agent_id = a.id AND carried
        UNION ALL SELECT id FROM transcript_turn WHERE agent_id = a.id AND NOT carried
    ) r
    WHERE a.deleted_at IS NOT NULL AND a.emptied_at IS NULL LIMIT $1)
"""

# Attachments go before their messages, and messages before their contacts.
LEFTOVERS = (
    *("attachment", "notification", "schedule", "parked_call", "approval_grant", "run", "message"),
    *("contact", "document", "project", "hook"),
)
DELETE_LEFTOVERS = (
    *(DELETE_OF_DELETED.format(table=table) for table in LEFTOVERS),
    DELETE_TURNS_OF_DELETED,
)

MARK_EMPTIED = """
UPDATE agent SET emptied_at = $1 WHERE deleted_at IS NOT NULL AND deleted_at < $2 AND emptied_at IS NULL
"""


class Retention:
    """Deletes expired rows. Each method takes a moment and a `limit`.

    It deletes up to `limit` rows and returns their number, 0 when done.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        delete = partial(delete_rows, pool)  # what is from before a moment, or ended before it
        self.delete_notifications = partial(delete, DELETE_NOTIFICATIONS)  # that were cleared
        self.delete_turns = partial(delete, DELETE_TURNS)  # of transcripts, that are carried no longer
        self.delete_usage = partial(delete, DELETE_USAGE)
        self.delete_webhooks = partial(delete, DELETE_WEBHOOKS)  # deliveries that arrived or were given up
        self.delete_parked_calls = partial(delete, DELETE_PARKED_CALLS)
        self.delete_documents = partial(delete, DELETE_DOCUMENTS)  # that agents deleted, with their versions
        self.delete_events = partial(delete, DELETE_EVENTS)  # from the beginning of the log
        self.delete_audit_entries = partial(delete, DELETE_AUDIT)  # but the last one of each organization
        self.delete_spending = partial(delete, DELETE_SPENDING)  # of the days before

    async def delete_traces(self, until: datetime, limit: int) -> int:
        """Delete traces started before `until`, with their spans and runs, unless the run is still active."""
        return await self._delete_traces(LIST_TRACES, until, limit)

    async def delete_content(self, now: datetime, limit: int, *, days: int) -> int:
        """Remove the content of spans that is too old by its template, or by `days`; keep the spans.

        0 days keep it as long as the trace. The content of an active run stays.
        """
        rows = await self._pool.fetch(LIST_TRACES_WITH_CONTENT, now, days, limit)
        trace_ids = [row["id"] for row in rows]
        if not trace_ids:
            return 0
        count = await delete_rows(self._pool, REMOVE_CONTENT, trace_ids, limit)
        if count < limit:
            count += await delete_rows(self._pool, MARK_WITHOUT_CONTENT, trace_ids)
        return count

    async def delete_shared_content(
        self, now: datetime, limit: int, *, days: int, days_of_traces: int
    ) -> int:
        """Delete system prompts and tool definitions that no content refers to any more.

        `days` is how long content is kept, unless a template says otherwise; 0 days of a template are those
        of traces.
        """
        return await delete_rows(self._pool, DELETE_SHARED_CONTENT, now, days, days_of_traces, limit)

    async def delete_leftovers(self, now: datetime, limit: int) -> int:
        """Delete queues, runs, transcripts and channels of deleted agents.

        An agent found empty is not visited again.
        """
        count = await delete_rows(self._pool, DELETE_ATTACHMENT_CHUNKS, max(1, limit // ROWS_PER_CHUNK))
        if count:
            return count
        for delete in DELETE_LEFTOVERS:
            if count < limit:
                count += await delete_rows(self._pool, delete, limit - count)
        if count == 0:
            await self._pool.execute(MARK_EMPTIED, now, now - LATE_WRITES)
        return count

    async def delete_agents(self, until: datetime, limit: int) -> int:
        """Delete the rest of agents deleted before `until`: traces, then usage, then the agents' rows."""
        return (
            await self._delete_traces(LIST_TRACES_OF_DELETED, until, limit)
            or await delete_rows(self._pool, DELETE_USAGE_OF_DELETED, until, limit)
            or await delete_rows(self._pool, DELETE_AGENTS, until, limit)
        )

    async def _delete_traces(self, list_traces: str, until: datetime, limit: int) -> int:
        """Delete spans first: a single trace may have more than `limit` of them."""
        trace_ids = [row["id"] for row in await self._pool.fetch(list_traces, until, limit)]
        if not trace_ids:
            return 0
        count = await delete_rows(self._pool, DELETE_SPANS, trace_ids, limit)
        if count < limit:
            count += await self._pool.fetchval(DELETE_TRACES, trace_ids)
        return count
