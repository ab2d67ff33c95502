"""What an export of spans reads: how far it has come, and the spans of ended runs in bounded pages."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.postgres.paging import Chunk
from storage.postgres.pool import Pool
from storage.postgres.statement import Statement, from_row

MAX_SPANS = 500  # of a page
MAX_BYTES = 4_194_304  # of their attributes and content

NO_ID = UUID(int=0)

GET_POSITION = "SELECT position FROM span_export"

# A node that no longer does the chores may still be at it.
SET_POSITION = """
INSERT INTO span_export AS export (position) VALUES ($1)
ON CONFLICT (is_only) DO UPDATE SET position = greatest(export.position, excluded.position)
"""

LIST_SIZES = """
SELECT t.id, coalesce(size.span_count, 0) AS span_count
FROM trace t LEFT JOIN trace_size size ON size.trace_id = t.id WHERE t.id = ANY($1::uuid[])
"""

# As many as fit the bytes, and at least one, after the span with the given trace, start and id.
LIST_SPANS = Statement(
    """
WITH listed AS (
    SELECT s.id, s.trace_id, s.parent_id, s.name, s.span_type, s.started_at, s.ended_at, s.error,
           t.organization_id, t.agent_id, m.metadata::text AS metadata,
           CASE WHEN :has_content THEN m.content::text END AS content,
           i.content::text AS instructions, d.content::text AS tools
    FROM unnest(:run_id::uuid[]) AS r (id)
    JOIN trace t ON t.id = r.id
    CROSS JOIN LATERAL (
        SELECT * FROM span WHERE trace_id = r.id AND (started_at, id) > (
            CASE WHEN r.id = :after_trace THEN :after_start ELSE '-infinity'::timestamptz END,
            CASE WHEN r.id = :after_trace THEN :after_id ELSE :no_id::uuid END)
        ORDER BY started_at, id LIMIT :limit
    ) s
    LEFT JOIN span_metadata m ON m.span_id = s.id
    LEFT JOIN shared_content i
        ON :has_content AND i.organization_id = t.organization_id AND i.digest = m.instructions
    LEFT JOIN shared_content d
        ON :has_content AND d.organization_id = t.organization_id AND d.digest = m.tools
    ORDER BY s.trace_id, s.started_at, s.id LIMIT :limit
), measured AS (
    SELECT *, count(*) OVER () AS found, row_number() OVER w AS place,
           sum(coalesce(octet_length(metadata), 0) + coalesce(octet_length(content), 0) + octet_length(error)
               + coalesce(octet_length(instructions), 0) + coalesce(octet_length(tools), 0)) OVER w AS bytes
    FROM listed WINDOW w AS (ORDER BY trace_id, started_at, id ROWS UNBOUNDED PRECEDING)
)
SELECT * FROM measured WHERE place = 1 OR bytes <= :max_bytes ORDER BY place
    """,
    ["run_id", "after_trace", "after_start", "after_id", "no_id", "has_content", "limit", "max_bytes"],
)


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """A span of a run that is over, with its owners. What it was told and answered is JSON text.

    One whose end could not be stored has no `ended_at`.
    """

    id: UUID
    trace_id: UUID
    parent_id: UUID | None
    name: str
    span_type: str
    started_at: datetime
    ended_at: datetime | None
    error: str
    organization_id: UUID
    agent_id: UUID
    metadata: str | None
    content: str | None
    instructions: str | None
    tools: str | None


class SpanExports:
    """The table `span_export`, and the spans of ended runs."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get_position(self) -> int | None:
        """Return the id of the last event that is done with; None before the first export."""
        position: int | None = await self._pool.fetchval(GET_POSITION)
        return position

    async def set_position(self, position: int) -> None:
        await self._pool.execute(SET_POSITION, position)

    async def count_spans(self, run_ids: Collection[UUID]) -> dict[UUID, int]:
        """Return the number of spans of each run whose trace is still kept."""
        return {row["id"]: row["span_count"] for row in await self._pool.fetch(LIST_SIZES, run_ids)}

    async def list_spans(
        self, run_ids: Collection[UUID], after: EndedSpan | None, *, has_content: bool
    ) -> Chunk[EndedSpan]:
        """List the spans of the runs after one of them, by run and start."""
        rows = await self._pool.fetch(
            *LIST_SPANS.given(
                run_id=[run_id for run_id in run_ids if after is None or run_id >= after.trace_id],
                after_trace=after and after.trace_id,
                after_start=after and after.started_at,
                after_id=after and after.id,
                no_id=NO_ID,
                has_content=has_content,
                limit=MAX_SPANS,
                max_bytes=MAX_BYTES,
            )
        )
        is_cut = bool(rows) and (len(rows) == MAX_SPANS or len(rows) < rows[0]["found"])
        return Chunk([from_row(EndedSpan, row) for row in rows], is_cut=is_cut)
