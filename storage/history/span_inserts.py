"""Inserts of spans: many share a statement, and no trace gets more of them than it may have."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from storage.delivery.receipts import insert_receipt
from storage.errors import TraceFull
from storage.history.trace_model import NewSpan
from storage.model import Receipt
from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Connection, Pool
from storage.postgres.statement import Columns, Statement, arrays_of

MAX_SPANS_PER_TRACE = 100_000
MAX_SHARED_CHARACTERS = 65_536  # of metadata and content: spans with more get a transaction of their own
MAX_STATEMENT_CHARACTERS = 524_288  # of metadata and content
MAX_SHARED_ITEMS = 100  # fewer than elsewhere: a long statement delays everyone who shares it

NO_TEMPLATE = UUID(int=0)  # whose retention is that of the configuration


class _Size(NamedTuple):
    """What an insert adds to a trace: its spans, and since when and by whose retention it has content."""

    trace_id: UUID
    span_count: int
    content_at: datetime | None
    content_template: UUID | None


ITEM: Columns[NewSpan] = {
    "id": lambda new: new.span.id,
    "trace_id": lambda new: new.span.trace_id,
    "parent_id": lambda new: new.span.parent_id,
    "name": lambda new: new.span.name,
    "span_type": lambda new: new.span.span_type,
    "started_at": lambda new: new.span.started_at,
    "ended_at": lambda new: new.span.ended_at,
    "error": lambda new: new.span.error,
    "input_tokens": lambda new: new.span.input_tokens,
    "output_tokens": lambda new: new.span.output_tokens,
    "cached_tokens": lambda new: new.span.cached_tokens,
    "cost_usd": lambda new: new.span.cost_usd,
    "metadata": lambda new: new.metadata,
    "content": lambda new: None if new.content is None else new.content.text,
    "instructions": lambda new: None if new.content is None else new.content.instructions,
    "tools": lambda new: None if new.content is None else new.content.tools,
}
FIXED = {"trace_id", "parent_id", "name", "span_type"}  # when a span is stored
END_ITEM = {name: value_of for name, value_of in ITEM.items() if name not in FIXED}
SIZE: Columns[_Size] = {
    "size_trace_id": lambda size: size.trace_id,
    "size_span_count": lambda size: size.span_count,
    "size_content_at": lambda size: size.content_at,
    "size_content_template": lambda size: size.content_template,
}

# The metadata travels as text: asyncpg would read a list inside a json[] as another dimension of the array.
# Arrays become rows in lists of SELECT: PostgreSQL would first collect all rows of a function in FROM.
# Sizes are locked in the order of the traces, so that two inserts cannot deadlock. The spans of a trace that
# would have too many are left out; the other traces are returned.
INSERT_SHARED = Statement(
    """
WITH counted AS (
    INSERT INTO trace_size AS size (trace_id, span_count, content_at, content_template)
    SELECT trace_id, span_count, content_at, content_template FROM unnest(
        :size_trace_id::uuid[], :size_span_count::bigint[],
        :size_content_at::timestamptz[], :size_content_template::uuid[]
    ) AS i (trace_id, span_count, content_at, content_template)
    WHERE span_count <= :max_spans ORDER BY trace_id
    ON CONFLICT (trace_id) DO UPDATE SET
        span_count = size.span_count + excluded.span_count,
        content_at = coalesce(size.content_at, excluded.content_at),
        content_template = coalesce(size.content_template, excluded.content_template)
        WHERE size.span_count + excluded.span_count <= :max_spans
    RETURNING trace_id
), metadata AS (
    INSERT INTO span_metadata (span_id, metadata, content, instructions, tools)
    SELECT id, metadata::json, content::json, instructions, tools
    FROM (
        SELECT unnest(:id::uuid[]) AS id, unnest(:trace_id::uuid[]) AS trace_id,
               unnest(:metadata::text[]) AS metadata, unnest(:content::text[]) AS content,
               unnest(:instructions::bytea[]) AS instructions, unnest(:tools::bytea[]) AS tools
    ) item
    WHERE (metadata <> '{}' OR content IS NOT NULL) AND trace_id IN (SELECT trace_id FROM counted)
), span AS (
    INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at, error,
                      input_tokens, output_tokens, cached_tokens, cost_usd)
    SELECT id, trace_id, parent_id, name, span_type, started_at, ended_at, error,
           input_tokens, output_tokens, cached_tokens, cost_usd
    FROM (
        SELECT unnest(:id::uuid[]) AS id, unnest(:trace_id::uuid[]) AS trace_id,
               unnest(:parent_id::uuid[]) AS parent_id, unnest(:name::text[]) AS name,
               unnest(:span_type::text[]) AS span_type,
               unnest(:started_at::timestamptz[]) AS started_at,
               unnest(:ended_at::timestamptz[]) AS ended_at, unnest(:error::text[]) AS error,
               unnest(:input_tokens::bigint[]) AS input_tokens,
               unnest(:output_tokens::bigint[]) AS output_tokens,
               unnest(:cached_tokens::bigint[]) AS cached_tokens,
               unnest(:cost_usd::float8[]) AS cost_usd
    ) item
    WHERE trace_id IN (SELECT trace_id FROM counted)
)
SELECT trace_id FROM counted
    """,
    [*ITEM, *SIZE, "max_spans"],
)

INSERT = Statement(
    """
WITH item AS (
    SELECT * FROM unnest(
        :id::uuid[], :trace_id::uuid[], :parent_id::uuid[], :name::text[], :span_type::text[],
        :started_at::timestamptz[], :ended_at::timestamptz[],
        :error::text[], :input_tokens::bigint[], :output_tokens::bigint[], :cached_tokens::bigint[],
        :cost_usd::float8[],
        :metadata::text[], :content::text[], :instructions::bytea[], :tools::bytea[]
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
    """,
    ITEM,
)

COUNT = Statement(
    """
INSERT INTO trace_size AS size (trace_id, span_count, content_at, content_template)
SELECT trace_id, span_count, content_at, content_template FROM unnest(
    :size_trace_id::uuid[], :size_span_count::bigint[],
    :size_content_at::timestamptz[], :size_content_template::uuid[]
) AS i (trace_id, span_count, content_at, content_template)
ORDER BY trace_id
ON CONFLICT (trace_id) DO UPDATE SET
    span_count = size.span_count + excluded.span_count,
    content_at = coalesce(size.content_at, excluded.content_at),
    content_template = coalesce(size.content_template, excluded.content_template)
RETURNING trace_id, span_count
    """,
    SIZE,
)

# The end of a span that was stored while it was open. A client may have replaced its metadata since.
END = Statement(
    """
WITH item AS (
    SELECT * FROM unnest(
        :id::uuid[], :started_at::timestamptz[], :ended_at::timestamptz[], :error::text[],
        :input_tokens::bigint[], :output_tokens::bigint[], :cached_tokens::bigint[], :cost_usd::float8[],
        :metadata::text[], :content::text[], :instructions::bytea[], :tools::bytea[]
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
    """,
    END_ITEM,
)

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
            await self._pool.execute(*END.given(arrays_of(END_ITEM, chunk)))

    async def _insert_shared(self, groups: list[Sequence[NewSpan]]) -> list[bool]:
        """Return for each group, all of one trace, whether it was stored.

        Of several groups of a trace none is stored if they do not fit together.
        """
        spans = list(chain.from_iterable(groups))
        statement = INSERT_SHARED.given(
            arrays_of(ITEM, spans) | arrays_of(SIZE, list(_sizes(spans).values())), max_spans=self._max_spans
        )
        counted = await self._pool.fetch(*statement)
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
                await connection.execute(*INSERT.given(arrays_of(ITEM, chunk)))
            sizes = await connection.fetch(*COUNT.given(arrays_of(SIZE, list(added.values()))))
            for size in sizes:
                if size["span_count"] > max_spans:
                    trace_id, span_count = size["trace_id"], added[size["trace_id"]].span_count
                    raise TraceFull(trace_id, max_spans, size["span_count"] - span_count)


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
