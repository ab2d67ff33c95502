"""Traces with all of their spans, which PostgreSQL writes as JSON. Only traces with few spans are read so."""

from dataclasses import dataclass
from typing import LiteralString

from storage.history.trace_model import SpanSummary, Trace
from storage.postgres.json_pages import JsonItem, JsonText
from storage.postgres.json_reads import JsonReads
from storage.postgres.pool import Pool
from storage.postgres.query import fill_in
from storage.postgres.shared_reads import is_short

FEW_SPANS = 20  # more than an ordinary run has; many would delay the others that share the statement

# The spans come in the order of their pages. Other programs may have stored infinite times, or times that are
# too far apart for an interval: subtracting them would fail the statement for all who share it.
GET = """
SELECT t.*, coalesce(size.span_count, 0) AS total_spans,
       '[' || coalesce((
           SELECT string_agg(concat(/* span */), ',' ORDER BY p.started_at, p.id)
           FROM (
               SELECT s.*, s.error <> '' AS has_error,
                      CASE WHEN isfinite(s.started_at) AND isfinite(s.ended_at) THEN floor(
                          1000 * (extract(epoch FROM s.ended_at) - extract(epoch FROM s.started_at))
                      )::bigint END AS duration_ms
               FROM span s WHERE s.trace_id = t.id
           ) p
       ), '') || ']' AS spans
FROM trace t LEFT JOIN trace_size size ON size.trace_id = t.id
WHERE t.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""

HAS_FEW_SPANS: LiteralString = f"p.total_spans <= {FEW_SPANS}"


@dataclass(frozen=True, slots=True)
class WholeTrace(Trace):
    """The columns of a trace with all of its spans."""

    total_spans: int
    spans: JsonText


@dataclass(frozen=True, slots=True)
class SpanOfTrace(SpanSummary):
    """The columns of a span of a whole trace."""

    duration_ms: int | None = None


class WholeTraces:
    """Reads traces with all of their spans. One with more than FEW_SPANS is only found, like a long one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reads: dict[tuple[JsonItem, JsonItem], JsonReads] = {}

    def as_json(self, trace: JsonItem, span: JsonItem) -> JsonReads:
        """Return the reads that write traces and their spans as these items."""
        reads = self._reads.get((trace, span))
        if reads is None:
            statement = fill_in(GET, "/* span */", span.sql)
            condition = f"{HAS_FEW_SPANS} AND {is_short(('p.error',), ('p.metadata',))}"
            reads = JsonReads("whole traces", self._pool, statement, trace, condition)
            self._reads[trace, span] = reads
        return reads
