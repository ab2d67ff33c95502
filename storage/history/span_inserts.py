"""Inserts of spans: many share a statement, and no trace gets more of them than it may have."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from storage.delivery.receipts import insert_receipt
from storage.errors import TraceFull
from storage.history.trace_model import NewSpan
from storage.model import Receipt
from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Connection, Pool

MAX_SPANS_PER_TRACE = 100_000
MAX_SHARED_CHARACTERS = 65_536  # of metadata and content: spans with more get a transaction of their own
MAX_STATEMENT_CHARACTERS = 524_288  # of metadata and content
MAX_SHARED_ITEMS = 100  # fewer than elsewhere: a long statement delays everyone who shares it

NO_TEMPLATE = UUID(int=0)  # whose retention is that of the configuration

# The metadata travels as text: asyncpg would read a list inside a json[] as another dimension of the array.
# Arrays become rows in lists of SELECT: PostgreSQL would first collect all rows of a function in FROM.
# Sizes are locked in the order of the traces, so that two inserts cannot deadlock. The spans of a trace that
# would have too many are left out; the other traces are returned.
INSERT_SHARED = """
WITH counted AS (
    INSERT INTO trace_size AS size (trace_id, span_count, content_at, content_template)
    SELECT * FROM unnest($17::uuid[], $18::bigint[], $19::timestamptz[], $20::uuid[])
        AS i (trace_id, span_count, content_at, content_template)
    WHERE span_count <= $21 ORDER BY trace_id
    ON CONFLICT (trace_id) DO UPDATE SET
        span_count = size.span_count + excluded.span_count,
        content_at = coalesce(size.content_at, excluded.content_at),
        content_template = coalesce(size.content_template, excluded.content_template)
        WHERE size.span_count + excluded.span_count <= $21
    RETURNING trace_id
), metadata AS (
    INSERT INTO span_metadata (span_id, metadata, content, instructions, tools)
    SELECT id, metadata::json, content::json, instructions, tools
    FROM (
        SELECT unnest($1::uuid[]) AS id, unnest($2::uuid[]) AS trace_id,
               unnest($13::text[]) AS metadata, unnest($14::text[]) AS content,
               unnest($15::bytea[]) AS instructions, unnest($16::bytea[]) AS tools
    ) item
    WHERE (metadata <> '{}' OR content IS NOT NULL) AND trace_id IN (SELECT trace_id FROM counted)
), span AS (
    INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at, error,
                      input_tokens, output_tokens, cached_tokens, cost_usd)
    SELECT * FROM (
        SELECT unnest($1::uuid[]), unnest($2::uuid[]) AS trace_id, unnest($3::uuid[]), unnest($4::text[]),
               unnest($5::text[]), unnest($6::timestamptz[]), unnest($7::timestamptz[]), unnest($8::text[]),
               unnest($9::bigint[]), unnest($10::bigint[]), unnest($11::bigint[]), unnest($12::float8[])
    ) item
    WHERE trace_id IN (SELECT trace_id FROM counted)
)
SELECT trace_id FROM counted
"""

INSERT = """
WITH item AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
        $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::float8[],
        $13::text[], $14::text[], $15::bytea[], $16::bytea[]
    ) AS i (id, trace_id, parent_id, name, span_type, started_at, ended_at, error,
            input_tokens, output_tokens, cached_tokens, cost_usd, metadata, content, instructions, tools)
), metadata AS (
    INSERT INTO span_metadata (span_id, metadata, content, instructions, tools)
    SELECT id, metadata::json, content::json, instructions, tools FROM item
    WHERE metadata <> '{}' OR content IS NOT NULL
)
INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at, error,
                  input_tokens, output_tokens, cached_tokens, cost_usd)
SELECT id, trace_id, parent_id, name, span_type, started_at, ended_at, error,
       input_tokens, output_tokens, cached_tokens, cost_usd
FROM item
"""

COUNT = """
INSERT INTO trace_size AS size (trace_id, span_count, content_at, content_template)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::uuid[])
    AS i (trace_id, span_count, content_at, content_template)
ORDER BY trace_id
ON CONFLICT (trace_id) DO UPDATE SET
    span_count = size.span_count + excluded.span_count,
    content_at = coalesce(size.content_at, excluded.content_at),
    content_template = coalesce(size.content_template, excluded.content_template)
RETURNING trace_id, span_count
"""

# The end of a span that was stored while it was open. A client may have replaced its metadata since.
END = """
WITH item AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::text[],
        $5::bigint[], $6::bigint[], $7::bigint[], $8::float8[],
        $9::text[], $10::text[], $11::bytea[], $12::bytea[]
    ) AS i (id, started_at, ended_at, error, input_tokens, output_tokens, cached_tokens, cost_usd,
            metadata, content, instructions, tools)
), ended AS (
    UPDATE span s SET started_at = item.started_at, ended_at = item.ended_at, error = item.error,
        input_tokens = item.input_tokens, output_tokens = item.output_tokens,
        cached_tokens = item.cached_tokens, cost_usd = item.cost_usd
    FROM item WHERE s.id = item.id
    RETURNING s.id
)
INSERT INTO span_metadata (span_id, metadata, content, instructions, tools)
SELECT id, metadata::json, content::json, instructions, tools FROM item JOIN ended USING (id)
WHERE metadata <> '{}' OR content IS NOT NULL
ON CONFLICT (span_id) DO UPDATE SET metadata = excluded.metadata, content = excluded.content,
    instructions = excluded.instructions, tools = excluded.tools
"""

GET_ORGANIZATION = "SELECT organization_id FROM trace WHERE id = $1"


class SpanInserts:
    """Writes spans, their metadata and content, and the number of spans of each trace."""

    def __init__(self, pool: Pool, max_spans: int) -> None:
        self._pool = pool
        self._max_spans = max_spans
        self._shared = GroupCommit("spans", self._insert_shared, max_items=MAX_SHARED_ITEMS)

    async def close(self) -> None:
        await self._shared.close()

    async def insert(self, spans: Sequence[NewSpan], receipt: Receipt | None = None) -> None:
        """Store all of the spans or none. Raise NotUnique, or TraceFull if a trace would have too many.

        Those of a request with a receipt share no statement with others. Raise AnsweredBefore if the receipt
        exists already.
        """
        if not spans:
            return
        if receipt is not None:
            await self._insert_alone(spans, self._max_spans, receipt)
            return
        is_long = sum(new.length for new in spans) > MAX_SHARED_CHARACTERS
        if is_long or len(_trace_ids(spans)) > 1 or not await self._shared.add(spans):
            await self._insert_alone(spans, self._max_spans)

    async def insert_note(self, note: NewSpan) -> None:
        """Store the span even if it is one too many for its trace."""
        await self._insert_alone([note], self._max_spans + 1)

    async def end(self, spans: Sequence[NewSpan]) -> None:
        """Store the ends, metadata and content of spans that were stored while they were open."""
        for chunk in _chunks(spans):
            await self._pool.execute(END, *zip(*map(_end_row, chunk), strict=True))

    async def _insert_shared(self, groups: list[Sequence[NewSpan]]) -> list[bool]:
        """Return for each group, all of one trace, whether it was stored.

        Of several groups of a trace none is stored if they do not fit together.
        """
        spans = list(chain.from_iterable(groups))
        sizes = _sizes(spans).values()
        counted = await self._pool.fetch(
            INSERT_SHARED, *_columns(spans), *zip(*sizes, strict=True), self._max_spans
        )
        stored = {row["trace_id"] for row in counted}
        return [stored.issuperset(_trace_ids(group)) for group in groups]

    async def _insert_alone(
        self, spans: Sequence[NewSpan], max_spans: int, receipt: Receipt | None = None
    ) -> None:
        """Store the spans in a transaction, which locks the sizes of their traces only at its end."""
        added = _sizes(spans)
        async with self._pool.transaction() as connection:
            if receipt is not None:
                await _insert_receipt(connection, receipt, spans)
            for chunk in _chunks(spans):
                await connection.execute(INSERT, *_columns(chunk))
            sizes = await connection.fetch(COUNT, *zip(*added.values(), strict=True))
            for size in sizes:
                if size["span_count"] > max_spans:
                    trace_id, span_count = size["trace_id"], added[size["trace_id"]].span_count
                    raise TraceFull(trace_id, max_spans, size["span_count"] - span_count)


class _Size(NamedTuple):
    """What an insert adds to a trace: its spans, and since when and by whose retention it has content."""

    trace_id: UUID
    span_count: int
    content_at: datetime | None
    content_template: UUID | None


async def _insert_receipt(connection: Connection, receipt: Receipt, spans: Sequence[NewSpan]) -> None:
    """Store the receipt for the organization of the first span, unless its trace was deleted just now."""
    organization_id = await connection.fetchval(GET_ORGANIZATION, spans[0].span.trace_id)
    if organization_id is not None:
        await insert_receipt(connection, receipt, organization_id)


def _sizes(spans: Sequence[NewSpan]) -> dict[UUID, _Size]:
    sizes: dict[UUID, _Size] = {}
    for new in spans:
        trace_id, content = new.span.trace_id, new.content
        size = sizes.get(trace_id) or _Size(trace_id, 0, None, None)
        content_at, template_id = size.content_at, size.content_template
        if content is not None and content_at is None:
            content_at, template_id = new.span.started_at, content.template_id or NO_TEMPLATE
        sizes[trace_id] = _Size(trace_id, size.span_count + 1, content_at, template_id)
    return sizes


def _chunks(spans: Sequence[NewSpan]) -> Iterator[list[NewSpan]]:
    """Yield the spans in statements that the event loop does not take long to write."""
    chunk: list[NewSpan] = []
    characters = 0
    for new in spans:
        characters += new.length
        if chunk and characters > MAX_STATEMENT_CHARACTERS:
            yield chunk
            chunk, characters = [], new.length
        chunk.append(new)
    if chunk:
        yield chunk


def _trace_ids(spans: Sequence[NewSpan]) -> set[UUID]:
    return {new.span.trace_id for new in spans}


def _columns(spans: Sequence[NewSpan]) -> Iterator[tuple[Any, ...]]:
    return zip(*map(_row, spans), strict=True)


def _row(new: NewSpan) -> tuple[Any, ...]:
    span = new.span
    return (
        span.id,
        span.trace_id,
        span.parent_id,
        span.name,
        span.span_type,
        span.started_at,
        span.ended_at,
        span.error,
        span.input_tokens,
        span.output_tokens,
        span.cached_tokens,
        span.cost_usd,
        *_content_row(new),
    )


def _end_row(new: NewSpan) -> tuple[Any, ...]:
    row = _row(new)
    return row[:1] + row[5:]


def _content_row(new: NewSpan) -> tuple[str, str | None, bytes | None, bytes | None]:
    content = new.content
    if content is None:
        return new.metadata, None, None, None
    return new.metadata, content.text, content.instructions, content.tools
