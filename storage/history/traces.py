"""Traces of runs, and their spans, one by one or as columns. They outlive their agents."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import insert_once
from storage.history.spans import MAX_SPANS_PER_TRACE, SpanInserts, full_metadata
from storage.history.trace_model import Span, SpanSummary, Trace, usage_of
from storage.model import Receipt
from storage.postgres.json_values import EncodedJson
from storage.postgres.paging import ROW_BYTES, Chunk, Cursor, Page, PageConditions, fetch_page
from storage.postgres.pool import Pool
from storage.postgres.query import ALWAYS, Conditions, Period
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import fetch_all, fetch_one, fields_of, from_row, insert_into

# The length of a row as JSON: its ids, times and numbers, and exactly its texts.
PAGE_COLUMNS = """
WITH listed AS (
    SELECT * FROM span WHERE trace_id = $1 /* and */ ORDER BY started_at, id LIMIT $2::integer + 1
), measured AS (
    SELECT *, row_number() OVER w AS place,
           sum(190 + octet_length(to_json(name)::text) + octet_length(to_json(span_type)::text)) OVER w
           AS bytes
    FROM listed WINDOW w AS (ORDER BY started_at, id ROWS UNBOUNDED PRECEDING)
), page AS (
    SELECT * FROM measured WHERE place <= $2 AND (bytes <= $4 OR place = 1) ORDER BY place
)
SELECT count(*) < (SELECT count(*) FROM listed) AS is_cut, (array_agg(id))[count(*)] AS last_id,
       coalesce(json_agg(id), '[]') AS ids,
       coalesce(json_agg(parent_id), '[]') AS parents,
       coalesce(json_agg(name), '[]') AS names,
       coalesce(json_agg(span_type), '[]') AS span_types,
       coalesce(json_agg((extract(epoch FROM started_at - $3::timestamptz) * 1000000)::bigint), '[]')
           AS starts_us,
       coalesce(json_agg((extract(epoch FROM ended_at - started_at) * 1000000)::bigint), '[]')
           AS durations_us,
       coalesce(json_agg(error <> ''), '[]') AS has_errors,
       coalesce(json_agg(input_tokens), '[]') AS input_tokens,
       coalesce(json_agg(output_tokens), '[]') AS output_tokens,
       coalesce(json_agg(cached_tokens), '[]') AS cached_tokens,
       coalesce(json_agg(cost_usd), '[]') AS costs_usd
FROM page
"""

MAX_SPANS = 5000  # of a page
MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class SpanColumns:
    """Spans of a trace, oldest first: lists as JSON, of which each has one value for each span.

    Times count in microseconds from a given moment. `is_cut` if the trace has more spans after these.
    """

    is_cut: bool
    last_id: UUID | None
    ids: Any
    parents: Any
    names: Any
    span_types: Any
    starts_us: Any
    durations_us: Any
    has_errors: Any
    input_tokens: Any
    output_tokens: Any
    cached_tokens: Any
    costs_usd: Any


JSON_NULL = EncodedJson(b"null")  # None would be stored as SQL's NULL
ERROR_CHARACTERS = 1000  # of an error on a page of spans

GET = "SELECT * FROM trace WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"

# The first end stays. While the trace's run goes on, only the end of the run ends the trace.
END = """
UPDATE trace t
SET name = coalesce($2, t.name), error = coalesce($3, t.error),
    metadata = CASE WHEN $4 THEN coalesce($5::json, 'null') ELSE t.metadata END,
    ended_at = CASE WHEN EXISTS (SELECT FROM run WHERE id = t.id AND ended_at IS NULL) THEN t.ended_at
                    ELSE coalesce(t.ended_at, $6) END
WHERE t.id = $1
RETURNING t.*
"""

GET_SPAN = """
SELECT s.*, t.organization_id, t.agent_id,
       CASE WHEN m.span_id IS NULL THEN '{}' ELSE m.metadata END AS metadata, m.content,
       i.content AS instructions, d.content AS tools
FROM span s
CROSS JOIN LATERAL (SELECT organization_id, agent_id FROM trace WHERE id = s.trace_id OFFSET 0) t
LEFT JOIN span_metadata m ON m.span_id = s.id
LEFT JOIN shared_content i ON i.organization_id = t.organization_id AND i.digest = m.instructions
LEFT JOIN shared_content d ON d.organization_id = t.organization_id AND d.digest = m.tools
WHERE s.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""

END_SPAN = """
WITH ended AS (
    UPDATE span SET ended_at = coalesce(ended_at, $2), error = coalesce($3, error),
        input_tokens = CASE WHEN $4 THEN $6 ELSE input_tokens END,
        output_tokens = CASE WHEN $4 THEN $7 ELSE output_tokens END,
        cached_tokens = CASE WHEN $4 THEN $8 ELSE cached_tokens END,
        cost_usd = CASE WHEN $4 THEN $9 ELSE cost_usd END
    WHERE id = $1
    RETURNING id
)
INSERT INTO span_metadata (span_id, metadata)
SELECT id, coalesce($5::json, 'null') FROM ended WHERE $4
ON CONFLICT (span_id) DO UPDATE SET metadata = excluded.metadata
"""

LIST_KNOWN_SPANS = "SELECT id FROM span WHERE id = ANY($1::uuid[])"

LIST_SPAN_OWNERS = """
SELECT s.id, s.trace_id, t.organization_id FROM span s JOIN trace t ON t.id = s.trace_id
WHERE s.id = ANY($1::uuid[])
"""

LIST_OWNERS = """
SELECT t.id, t.organization_id, t.agent_id, coalesce(a.timezone, 'UTC') AS timezone
FROM trace t LEFT JOIN agent a ON a.id = t.agent_id
WHERE t.id = ANY($1::uuid[])
"""

# Without the error, which may be long: a page of spans is bounded by the lengths of the other columns.
LIST_SPANS = """
SELECT id, trace_id, parent_id, name, span_type, started_at, ended_at, error <> '' AS has_error,
       input_tokens, output_tokens, cached_tokens, cost_usd
FROM span
WHERE trace_id = $1 /* and */
ORDER BY started_at, id LIMIT $2
"""

# Go from span to span, so that little metadata is read beyond the bytes of the page: the first row that does
# not fit is the last one, and comes without its metadata. A row without an id goes to the next trace.
LIST_EXPANDED_SPANS = """
WITH RECURSIVE page AS (
    SELECT 1 AS trace, $5::timestamptz AS started_at, $6::uuid AS id,
           NULL::json AS metadata, NULL::json AS content, NULL::json AS instructions, NULL::json AS tools,
           0 AS place, 0::bigint AS total_bytes
    UNION ALL
    SELECT page.trace + (next.id IS NULL)::integer, next.started_at, next.id,
           next.metadata, next.content, next.instructions, next.tools,
           page.place + (next.id IS NOT NULL)::integer,
           page.total_bytes + coalesce($4::integer + octet_length(next.name), 0)
           + coalesce(octet_length(next.metadata::text), 0)
           + coalesce(octet_length(next.content::text), 0)
           + coalesce(octet_length(next.instructions::text), 0)
           + coalesce(octet_length(next.tools::text), 0)
    FROM page LEFT JOIN LATERAL (
        SELECT s.started_at, s.id, s.name, coalesce(m.metadata, '{}') AS metadata,
               CASE WHEN $9 THEN m.content END AS content, i.content AS instructions, d.content AS tools
        FROM span s
        LEFT JOIN span_metadata m ON m.span_id = s.id
        LEFT JOIN shared_content i
            ON $9 AND i.organization_id = ($7::uuid[])[page.trace] AND i.digest = m.instructions
        LEFT JOIN shared_content d
            ON $9 AND d.organization_id = ($7::uuid[])[page.trace] AND d.digest = m.tools
        WHERE s.trace_id = ($1::uuid[])[page.trace]
        AND (s.started_at, s.id) > (coalesce(page.started_at, '-infinity'),
                                    coalesce(page.id, '00000000-0000-0000-0000-000000000000'))
        ORDER BY s.started_at, s.id LIMIT 1
    ) next ON true
    WHERE page.trace <= cardinality($1::uuid[])
    AND page.place < $2 AND (page.total_bytes <= $3 OR page.place = 1)
)
SELECT s.id, s.trace_id, s.parent_id, s.name, s.span_type, s.started_at, s.ended_at,
       s.error <> '' AS has_error, left(s.error, $8) AS error, fits,
       s.input_tokens, s.output_tokens, s.cached_tokens, s.cost_usd,
       CASE WHEN fits THEN page.metadata END AS metadata, CASE WHEN fits THEN page.content END AS content,
       CASE WHEN fits THEN page.instructions END AS instructions, CASE WHEN fits THEN page.tools END AS tools
FROM page JOIN span s ON s.id = page.id
CROSS JOIN LATERAL (SELECT place = 1 OR total_bytes <= $3 AS fits) f
WHERE place > 0
ORDER BY place
"""

GET_SPAN_CURSOR = "SELECT started_at, id FROM span WHERE id = $1 AND trace_id = $2"

COUNT_SPANS = "SELECT span_count FROM trace_size WHERE trace_id = $1"

# Read a page of each organization along its index, then take the newest of all.
PAGE = """
SELECT t.*,
       coalesce(a.name, '') AS agent_name, coalesce(template.name, '') AS template_name,
       coalesce(size.span_count, 0) AS span_count,
       t.error <> '' OR EXISTS (SELECT FROM span WHERE trace_id = t.id AND error <> '') AS has_error
FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT t.* FROM trace t
    WHERE t.organization_id = o.id /* and */
    ORDER BY t.started_at DESC, t.id DESC LIMIT $2::bigint + $3::bigint
) t
LEFT JOIN trace_size size ON size.trace_id = t.id
LEFT JOIN agent a ON a.id = t.agent_id
LEFT JOIN template ON template.id = a.template_id
ORDER BY t.started_at DESC, t.id DESC LIMIT $2 OFFSET $3
"""

COUNT = "SELECT count(*) FROM trace t WHERE t.organization_id = ANY($1::uuid[]) /* and */"


@dataclass(frozen=True, slots=True)
class TraceFilters:
    """The traces that a list shows."""

    agent_id: UUID | None = None
    template_id: UUID | None = None
    has_error: bool | None = None
    started: Period = ALWAYS


@dataclass(frozen=True, slots=True)
class TraceSummary(Trace):
    """A trace as lists show it."""

    agent_name: str
    template_name: str
    span_count: int
    has_error: bool


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a trace or a span and what it changes; a field that is None stays as it was.

    `has_metadata` tells metadata that is JSON's null from metadata that was left out.
    """

    ended_at: datetime
    name: str | None = None
    error: str | None = None
    has_metadata: bool = False
    metadata: Any = None


@dataclass(frozen=True, slots=True)
class ExpandedSpan:
    """A span as pages of spans show it, with its metadata and the beginning of its error."""

    span: SpanSummary
    metadata: Any
    error: str


@dataclass(frozen=True, slots=True)
class SpanWithMetadata:
    """A span with its metadata and its owners."""

    span: Span
    metadata: Any
    organization_id: UUID
    agent_id: UUID


@dataclass(frozen=True, slots=True)
class SpanOwner:
    """The trace of a span, and the organization that owns it."""

    trace_id: UUID
    organization_id: UUID


@dataclass(frozen=True, slots=True)
class TraceOwner:
    """The owners of a trace; `timezone` is that of its agent, which may be deleted."""

    id: UUID  # of the trace
    organization_id: UUID
    agent_id: UUID
    timezone: str


class Traces:
    """The tables `trace`, `span`, `span_metadata` and `trace_size`."""

    def __init__(self, pool: Pool, max_spans: int = MAX_SPANS_PER_TRACE) -> None:
        self._pool = pool
        self.max_spans = max_spans
        self._inserts = inserts = SpanInserts(pool, max_spans)
        self.insert_spans, self.end_spans, self.insert_note = inserts.insert, inserts.end, inserts.insert_note
        self.get = SharedReads(
            "traces", pool, GET, partial(from_row, Trace), texts=("error",), documents=("metadata",)
        )
        self.get_span = SharedReads(
            "spans",
            pool,
            GET_SPAN,
            _span_with_metadata,
            texts=("s.error",),
            documents=("m.metadata", "m.content", "i.content", "d.content"),
        )

    async def insert(self, trace: Trace, receipt: Receipt | None = None) -> None:
        """Store the trace. Raise NotUnique if the `id` is taken, AnsweredBefore if the receipt exists."""
        metadata = JSON_NULL if trace.metadata is None else trace.metadata
        insert = insert_into("trace", fields_of(trace) | {"metadata": metadata})
        await insert_once(self._pool, receipt, trace.organization_id, *insert)

    async def end(self, trace_id: UUID, ending: Ending) -> Trace | None:
        """End the trace and return it; None if there is no such trace. The first end stays."""
        args = (ending.name, ending.error, ending.has_metadata, ending.metadata, ending.ended_at)
        return await fetch_one(self._pool, Trace, END, trace_id, *args)

    async def list_owners(self, trace_ids: Collection[UUID]) -> dict[UUID, TraceOwner]:
        """Return the owners of the traces by id, without ids that name no trace."""
        rows = await self._pool.fetch(LIST_OWNERS, trace_ids)
        return {row["id"]: from_row(TraceOwner, row) for row in rows}

    async def end_span(self, span_id: UUID, ending: Ending) -> None:
        """End the span, which keeps its name; nothing happens if there is no such span."""
        end = (ending.ended_at, ending.error, ending.has_metadata, ending.metadata)
        await self._pool.execute(END_SPAN, span_id, *end, *usage_of(ending.metadata).values())

    async def list_known_span_ids(self, span_ids: Collection[UUID]) -> set[UUID]:
        """Return the ids that name a span."""
        return {row["id"] for row in await self._pool.fetch(LIST_KNOWN_SPANS, span_ids)}

    async def list_span_owners(self, span_ids: Collection[UUID]) -> dict[UUID, SpanOwner]:
        """Return the traces of the spans by span id, without ids that name no span."""
        rows = await self._pool.fetch(LIST_SPAN_OWNERS, span_ids)
        return {row["id"]: from_row(SpanOwner, row) for row in rows}

    async def list_spans(
        self, trace_id: UUID, after: Cursor | None = None, limit: int = 1000
    ) -> list[SpanSummary]:
        """List up to `limit` spans of a trace, oldest first, from the one after the cursor."""
        conditions = Conditions(trace_id, limit)
        if after is not None:
            conditions.add("(started_at, id) > ($, $)", *after)
        return await fetch_all(self._pool, SpanSummary, conditions.into(LIST_SPANS), *conditions.parameters)

    async def list_expanded_spans(
        self,
        traces: Sequence[Trace | TraceOwner],
        after: Cursor | None,
        limit: int,
        max_bytes: int,
        *,
        has_content: bool = True,
    ) -> Chunk[ExpandedSpan]:
        """List up to `limit` spans with their metadata, as many as fit `max_bytes`, at least one.

        They come trace by trace, the first one's from the span after the cursor. Without content the
        metadata lacks what models and tools were told and answered.
        """
        ids, owners = [trace.id for trace in traces], [trace.organization_id for trace in traces]
        page = (limit + 1, max_bytes, ROW_BYTES, *(after or (None, None)))
        rows = await self._pool.fetch(LIST_EXPANDED_SPANS, ids, *page, owners, ERROR_CHARACTERS, has_content)
        shown = [row for row in rows[:limit] if row["fits"]]
        spans = [ExpandedSpan(from_row(SpanSummary, row), full_metadata(row), row["error"]) for row in shown]
        return Chunk(spans, is_cut=len(shown) < len(rows))

    async def read_columns(self, trace: Trace, after: Cursor | None, limit: int) -> SpanColumns:
        """Read up to `limit` spans from the one after the cursor, as many as fit MAX_BYTES, at least one.

        They come as columns, whose times count from the start of the trace.
        """
        conditions = Conditions(trace.id, limit, trace.started_at, MAX_BYTES)
        if after is not None:
            conditions.add("(started_at, id) > ($, $)", *after)
        sql = conditions.into(PAGE_COLUMNS)
        [columns] = await fetch_all(self._pool, SpanColumns, sql, *conditions.parameters)
        return columns

    async def get_span_cursor(self, trace_id: UUID, span_id: UUID) -> Cursor | None:
        """Return the place of a span in the list of its trace; None if it is no span of the trace."""
        row = await self._pool.fetchrow(GET_SPAN_CURSOR, span_id, trace_id)
        return None if row is None else (row["started_at"], row["id"])

    async def count_spans(self, trace_id: UUID) -> int:
        return await self._pool.fetchval(COUNT_SPANS, trace_id) or 0

    async def list_page(
        self, organization_ids: Sequence[UUID], filters: TraceFilters, page: Page
    ) -> Chunk[TraceSummary]:
        """List one page of the traces, last started first."""
        conditions = PageConditions(organization_ids, page, "t.started_at, t.id")
        _add_filters(conditions, filters)
        return await fetch_page(self._pool, TraceSummary, PAGE, conditions)

    async def count(self, organization_ids: Sequence[UUID], filters: TraceFilters) -> int:
        """Count the traces."""
        conditions = Conditions(organization_ids)
        _add_filters(conditions, filters)
        count: int = await self._pool.fetchval(conditions.into(COUNT), *conditions.parameters)
        return count


def _span_with_metadata(row: Record) -> SpanWithMetadata:
    return from_row(SpanWithMetadata, row, span=from_row(Span, row), metadata=full_metadata(row))


def _add_filters(conditions: Conditions, filters: TraceFilters) -> None:
    conditions.add_optional("t.agent_id = $", filters.agent_id)
    conditions.add_optional("t.agent_id IN (SELECT id FROM agent WHERE template_id = $)", filters.template_id)
    conditions.add_optional(
        "(t.error <> '' OR EXISTS (SELECT FROM span WHERE trace_id = t.id AND error <> '')) = $",
        filters.has_error,
    )
    conditions.add_period("t.started_at", filters.started)
