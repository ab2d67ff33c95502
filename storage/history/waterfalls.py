"""Waterfalls: the spans of a trace in short, as columns that the database writes as JSON.

A trace may have 100,000 spans. Written one by one they would hold up the event loop, and a browser would read
ten megabytes before it could draw them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.postgres.paging import Cursor
from storage.postgres.pool import Pool
from storage.postgres.query import Conditions
from storage.postgres.rows import fetch_all

# The length of a row as JSON: its ids, times and numbers, and exactly its texts.
PAGE = """
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


async def read_columns(
    pool: Pool, trace_id: UUID, since: datetime, after: Cursor | None, limit: int
) -> SpanColumns:
    """Read up to `limit` spans from the one after the cursor, as many as fit MAX_BYTES, at least one."""
    conditions = Conditions(trace_id, limit, since, MAX_BYTES)
    if after is not None:
        conditions.add("(started_at, id) > ($, $)", *after)
    [columns] = await fetch_all(pool, SpanColumns, conditions.into(PAGE), *conditions.parameters)
    return columns
