"""Spans on their way into storage: their content, and inserts that many share.

Content is what a model or a tool was told and answered, apart from the other metadata. System prompts and
tool definitions are stored once for an organization, by the digest of each text. No trace gets more spans
than it may have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from itertools import chain
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.delivery.receipts import insert_receipt
from storage.errors import TraceFull
from storage.history.trace_model import NewSpan, Span
from storage.model import Receipt
from storage.postgres.json_values import EncodedJson, to_json
from storage.postgres.pool import Connection, Pool
from storage.postgres.statement import Columns, Statement, arrays_of, columns_of

INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"


def full_metadata(row: Record) -> Any:
    """Return the metadata of a span with its content, from the columns of both.

    Metadata that a client replaced by something other than an object is returned alone.
    """
    metadata, content = row["metadata"], row["content"]
    if content is None or not _is_object(metadata):
        return metadata
    found = {INSTRUCTIONS: row["instructions"], TOOL_DEFINITIONS: row["tools"]}
    shared = {key: value for key, value in found.items() if value is not None}
    if any(isinstance(part, EncodedJson) for part in (metadata, content, *shared.values())):
        return EncodedJson(_joined([to_json(part) for part in (metadata, shared, content)]))
    return {**metadata, **shared, **content}


def _is_object(value: Any) -> bool:
    return value.text.startswith(b"{") if isinstance(value, EncodedJson) else isinstance(value, dict)


def _joined(objects: list[bytes]) -> bytes:
    """Return one object with the members of all, without parsing them: they may be long."""
    members = (text.strip()[1:-1].strip() for text in objects)
    return b"{" + b",".join(filter(None, members)) + b"}"


MAX_KNOWN = 10_000  # of texts that were stored lately

INSERT_CONTENT = """
INSERT INTO shared_content AS known (organization_id, digest, content, used_at)
VALUES ($1, $2, $3::text::json, $4)
ON CONFLICT (organization_id, digest) DO UPDATE SET used_at = greatest(known.used_at, excluded.used_at)
"""


class SharedContents:
    """The table `shared_content`. A text that this process has stored today costs no statement."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[tuple[UUID, bytes], date] = {}

    async def store(self, organization_id: UUID, text: bytes, now: datetime) -> bytes:
        """Store a JSON text unless it is stored already, note its use, and return its digest."""
        digest = sha256(text).digest()
        key, today = (organization_id, digest), now.date()
        if self._known.get(key) != today:
            await self._pool.execute(INSERT_CONTENT, organization_id, digest, text.decode(), now)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[key] = today
        return digest


MAX_SPANS_PER_TRACE = 100_000
MAX_SHARED_CHARACTERS = 65_536  # of metadata and content: spans with more get a transaction of their own
MAX_STATEMENT_CHARACTERS = 524_288  # of metadata and content
MAX_SHARED_ITEMS = 100  # fewer than elsewhere: a long statement delays everyone who shares it

NO_TEMPLATE = UUID(int=0)  # whose retention is that of the configuration


@dataclass(frozen=True, slots=True)
class _Size:
    """What an insert adds to a trace: its spans, and since when and by whose retention it has content."""

    trace_id: UUID
    span_count: int
    content_at: datetime | None
    content_template: UUID | None


ITEM: Columns[NewSpan] = {
    **columns_of(Span, path="span."),
    "metadata": lambda new: new.metadata,
    "content": lambda new: None if new.content is None else new.content.text,
    "instructions": lambda new: None if new.content is None else new.content.instructions,
    "tools": lambda new: None if new.content is None else new.content.tools,
}
FIXED = {"trace_id", "parent_id", "name", "span_type"}  # when a span is stored
END_ITEM = {name: value_of for name, value_of in ITEM.items() if name not in FIXED}
SIZE = columns_of(_Size, prefix="size_")

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
        self._shared = pool.group_commit(
            "spans", self._insert_shared, max_items=MAX_SHARED_ITEMS, is_write=True
        )

    async def insert(self, spans: Sequence[NewSpan], receipt: Receipt | None = None) -> None:
        """Store all of the spans or none. Raise NotUnique, or TraceFull if a trace would have too many.

        Concurrent calls share a commit, except for very long ones and those of a request with a receipt. That
        belongs to the organization of the first span. Raise AnsweredBefore if it exists already.
        """
        if not spans:
            return
        if receipt is not None:
            await self._insert_alone(spans, self._max_spans, receipt)
            return
        is_long = sum(new.length for new in spans) > MAX_SHARED_CHARACTERS
        is_of_several = any(new.span.trace_id != spans[0].span.trace_id for new in spans)
        if is_long or is_of_several or not await self._shared.add(spans):
            await self._insert_alone(spans, self._max_spans)

    async def insert_note(self, note: NewSpan) -> None:
        """Store the span that tells why its trace has no further ones, even if it is one too many."""
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
        return [group[0].span.trace_id in stored for group in groups]

    async def _insert_alone(
        self, spans: Sequence[NewSpan], max_spans: int, receipt: Receipt | None = None
    ) -> None:
        """Store the spans in a transaction, which locks the sizes of their traces only at its end."""
        added = _sizes(spans)

        async def work(connection: Connection) -> None:
            if receipt is not None:
                await _insert_receipt(connection, receipt, spans)
            for chunk in _chunks(spans):
                await connection.execute(*INSERT.given(arrays_of(ITEM, chunk)))
            sizes = await connection.fetch(*COUNT.given(arrays_of(SIZE, list(added.values()))))
            for size in sizes:
                if size["span_count"] > max_spans:
                    trace_id, span_count = size["trace_id"], added[size["trace_id"]].span_count
                    raise TraceFull(trace_id, max_spans, size["span_count"] - span_count)

        await self._pool.write(work, f"insert of {len(spans)} spans")


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
