"""Traces of runs and their spans. They outlive the agents they are of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.batching import Batch
from storage.clauses import Conditions
from storage.model import NewSpan, Span, Trace, TraceSummary
from storage.pool import Pool
from storage.rows import from_row

GET = "SELECT * FROM trace WHERE id = $1"

LIST_SPANS = "SELECT * FROM span WHERE trace_id = $1 ORDER BY started_at, id"

INSERT_SPANS = """
WITH item AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
        $8::text[], $9::jsonb[]
    ) AS i (id, trace_id, parent_id, name, span_type, started_at, ended_at, error, metadata)
), metadata AS (
    INSERT INTO span_metadata (span_id, metadata) SELECT id, metadata FROM item WHERE metadata <> '{}'
)
INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at, error)
SELECT id, trace_id, parent_id, name, span_type, started_at, ended_at, error FROM item
"""

# A page of each organization, then the newest of them all: so each is read along its index.
PAGE = """
SELECT t.*,
       coalesce(a.name, '') AS agent_name, template.name AS template_name,
       spans.span_count, t.error <> '' OR spans.has_error AS has_error
FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT t.* FROM trace t
    WHERE t.organization_id = o.id /* and */
    ORDER BY t.started_at DESC, t.id DESC LIMIT $2::bigint + $3::bigint
) t
CROSS JOIN LATERAL (
    SELECT count(*) AS span_count, coalesce(bool_or(error <> ''), false) AS has_error
    FROM span WHERE trace_id = t.id
) spans
LEFT JOIN agent a ON a.id = t.agent_id
LEFT JOIN template ON template.id = a.template_id
ORDER BY t.started_at DESC, t.id DESC LIMIT $2 OFFSET $3
"""

COUNT = "SELECT count(*) FROM trace t WHERE t.organization_id = ANY($1::uuid[]) /* and */"


@dataclass(frozen=True, slots=True)
class TraceFilters:
    """Which traces a list shows; started at or after the one moment, before the other."""

    agent_id: UUID | None = None
    template_id: UUID | None = None
    has_error: bool | None = None
    started_after: datetime | None = None
    started_before: datetime | None = None


class Traces:
    """The tables `trace`, `span` and `span_metadata`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._new_spans = Batch("spans", self._insert_span_groups)

    async def close(self) -> None:
        await self._new_spans.close()

    async def get(self, trace_id: UUID) -> Trace | None:
        row = await self._pool.fetchrow(GET, trace_id)
        return None if row is None else from_row(Trace, row)

    async def spans(self, trace_id: UUID) -> list[Span]:
        """The spans of a trace, oldest first, without their metadata."""
        return [from_row(Span, row) for row in await self._pool.fetch(LIST_SPANS, trace_id)]

    async def page(
        self, organization_ids: Sequence[UUID], filters: TraceFilters, limit: int, offset: int
    ) -> tuple[list[TraceSummary], int]:
        """Traces, last started first, and how many there are in all."""
        conditions = _conditions(filters, organization_ids, limit, offset)
        rows = await self._pool.fetch(conditions.into(PAGE), *conditions.parameters)
        conditions = _conditions(filters, organization_ids)
        total: int = await self._pool.fetchval(conditions.into(COUNT), *conditions.parameters)
        return [from_row(TraceSummary, row, trace=from_row(Trace, row)) for row in rows], total

    async def insert_spans(self, spans: Sequence[NewSpan]) -> None:
        """Finished spans with their metadata. Concurrent calls share a commit."""
        if spans:
            await self._new_spans.add(spans)

    async def _insert_span_groups(self, groups: list[Sequence[NewSpan]]) -> list[None]:
        rows = [
            (
                new.span.id,
                new.span.trace_id,
                new.span.parent_id,
                new.span.name,
                new.span.span_type,
                new.span.started_at,
                new.span.ended_at,
                new.span.error,
                new.metadata,
            )
            for group in groups
            for new in group
        ]
        await self._pool.execute(INSERT_SPANS, *zip(*rows, strict=True))
        return [None] * len(groups)


def _conditions(filters: TraceFilters, *parameters: object) -> Conditions:
    conditions = Conditions(*parameters)
    if filters.agent_id is not None:
        conditions.add("t.agent_id = $", filters.agent_id)
    if filters.template_id is not None:
        conditions.add("t.agent_id IN (SELECT id FROM agent WHERE template_id = $)", filters.template_id)
    if filters.has_error is not None:
        conditions.add(
            "(t.error <> '' OR EXISTS (SELECT FROM span WHERE trace_id = t.id AND error <> '')) = $",
            filters.has_error,
        )
    if filters.started_after is not None:
        conditions.add("t.started_at >= $", filters.started_after)
    if filters.started_before is not None:
        conditions.add("t.started_at < $", filters.started_before)
    return conditions
