"""Inserts of spans: many share a statement, and no trace gets more of them than it may have."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_receipt
from storage.errors import TraceFull
from storage.model import NewSpan, Receipt
from storage.postgres.group_commit import GroupCommit
from storage.postgres.leadership import Sleep
from storage.postgres.pool import Connection, Pool

MAX_SPANS_PER_TRACE = 100_000
MAX_SHARED_CHARACTERS = 65_536  # of metadata: spans with more are written in a transaction of their own
MAX_STATEMENT_CHARACTERS = 524_288  # of metadata
MAX_SHARED_ITEMS = 100  # fewer than elsewhere: a long statement delays everyone who shares it

SpanRow = tuple[Any, ...]

# The metadata travels as text: asyncpg would read a list inside a json[] as another dimension of the array.
# Sizes are locked in the order of the traces, so that two inserts cannot deadlock. The spans of a trace that
# would have too many are left out; the other traces are returned.
INSERT_SHARED = """
WITH item AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
        $8::text[], $9::text[]
    ) AS i (id, trace_id, parent_id, name, span_type, started_at, ended_at, error, metadata)
), counted AS (
    INSERT INTO trace_size AS size (trace_id, span_count)
    SELECT trace_id, span_count FROM unnest($10::uuid[], $11::bigint[]) AS i (trace_id, span_count)
    WHERE span_count <= $12 ORDER BY trace_id
    ON CONFLICT (trace_id) DO UPDATE SET span_count = size.span_count + excluded.span_count
        WHERE size.span_count + excluded.span_count <= $12
    RETURNING trace_id
), metadata AS (
    INSERT INTO span_metadata (span_id, metadata)
    SELECT id, metadata::json FROM item
    WHERE metadata <> '{}' AND trace_id IN (SELECT trace_id FROM counted)
), span AS (
    INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at, error)
    SELECT id, trace_id, parent_id, name, span_type, started_at, ended_at, error FROM item
    WHERE trace_id IN (SELECT trace_id FROM counted)
)
SELECT trace_id FROM counted
"""

INSERT = """
WITH item AS (
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
        $8::text[], $9::text[]
    ) AS i (id, trace_id, parent_id, name, span_type, started_at, ended_at, error, metadata)
), metadata AS (
    INSERT INTO span_metadata (span_id, metadata)
    SELECT id, metadata::json FROM item WHERE metadata <> '{}'
)
INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at, error)
SELECT id, trace_id, parent_id, name, span_type, started_at, ended_at, error FROM item
"""

COUNT = """
INSERT INTO trace_size AS size (trace_id, span_count)
SELECT trace_id, span_count FROM unnest($1::uuid[], $2::bigint[]) AS i (trace_id, span_count)
ORDER BY trace_id
ON CONFLICT (trace_id) DO UPDATE SET span_count = size.span_count + excluded.span_count
RETURNING trace_id, span_count
"""


GET_ORGANIZATION = "SELECT organization_id FROM trace WHERE id = $1"


class SpanInserts:
    """Writes spans, their metadata and the number of spans of each trace."""

    def __init__(self, pool: Pool, sleep: Sleep | None, max_spans: int) -> None:
        self._pool = pool
        self._max_spans = max_spans
        self._shared = GroupCommit("spans", self._insert_shared, sleep=sleep, max_items=MAX_SHARED_ITEMS)

    async def close(self) -> None:
        await self._shared.close()

    async def insert(self, spans: Sequence[NewSpan], receipt: Receipt | None = None) -> None:
        """Store all of the spans or none. Raise NotUnique, or TraceFull if a trace would have too many.

        Those of a request with a receipt share no statement with others. Raise AnsweredBefore if the receipt
        exists already.
        """
        rows = [_span_row(new) for new in spans]
        if not rows:
            return
        if receipt is not None:
            await self._insert_alone(rows, self._max_spans, receipt)
            return
        is_long = sum(len(new.metadata) for new in spans) > MAX_SHARED_CHARACTERS
        if is_long or len(_trace_ids(rows)) > 1 or not await self._shared.add(rows):
            await self._insert_alone(rows, self._max_spans)

    async def insert_note(self, note: NewSpan) -> None:
        """Store the span even if it is one too many for its trace."""
        await self._insert_alone([_span_row(note)], self._max_spans + 1)

    async def _insert_shared(self, groups: list[list[SpanRow]]) -> list[bool]:
        """Return for each group, all of one trace, whether it was stored.

        Of several groups of a trace none is stored if they do not fit together.
        """
        rows = list(chain.from_iterable(groups))
        added = Counter(trace_id for _, trace_id, *_ in rows)
        columns = zip(*rows, strict=True)
        counted = await self._pool.fetch(
            INSERT_SHARED, *columns, list(added), list(added.values()), self._max_spans
        )
        stored = {row["trace_id"] for row in counted}
        return [stored.issuperset(_trace_ids(rows)) for rows in groups]

    async def _insert_alone(
        self, rows: list[SpanRow], max_spans: int, receipt: Receipt | None = None
    ) -> None:
        """Store the spans in a transaction, which locks the sizes of their traces only at its end."""
        added = Counter(trace_id for _, trace_id, *_ in rows)
        async with self._pool.transaction() as connection:
            if receipt is not None:
                await _insert_receipt(connection, receipt, rows)
            for chunk in _chunks(rows):
                await connection.execute(INSERT, *zip(*chunk, strict=True))
            sizes = await connection.fetch(COUNT, list(added), list(added.values()))
            for size in sizes:
                if size["span_count"] > max_spans:
                    trace_id, stored = size["trace_id"], size["span_count"] - added[size["trace_id"]]
                    raise TraceFull(trace_id, max_spans, stored)


async def _insert_receipt(connection: Connection, receipt: Receipt, rows: list[SpanRow]) -> None:
    """Store the receipt for the organization of the first span, unless its trace was deleted just now."""
    _, trace_id, *_ = rows[0]
    organization_id = await connection.fetchval(GET_ORGANIZATION, trace_id)
    if organization_id is not None:
        await insert_receipt(connection, receipt, organization_id)


def _chunks(rows: list[SpanRow]) -> Iterator[list[SpanRow]]:
    """Yield the rows in statements that the event loop does not take long to write."""
    chunk: list[SpanRow] = []
    characters = 0
    for row in rows:
        characters += len(row[-1])
        if chunk and characters > MAX_STATEMENT_CHARACTERS:
            yield chunk
            chunk, characters = [], len(row[-1])
        chunk.append(row)
    yield chunk


def _trace_ids(rows: Sequence[SpanRow]) -> set[UUID]:
    return {trace_id for _, trace_id, *_ in rows}


def _span_row(new: NewSpan) -> SpanRow:
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
        new.metadata,
    )
