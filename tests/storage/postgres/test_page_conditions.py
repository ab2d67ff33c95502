"""Statements that list one page: their conditions, and their bound in bytes."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.channels.documents import Document
from storage.channels.messages import Message
from storage.history.traces import TraceSummary
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.paging import OrganizationsPage, Page, PageConditions, fetch_page, long_columns
from storage.postgres.pool import Pool
from tests.storage.factories import NOW

OWNERS = (new_id(),)
STATEMENT = "SELECT 1 WHERE id = ANY($1)/* and */ LIMIT $2 OFFSET $3"


def test_first_page_has_only_the_statements_parameters() -> None:
    conditions = PageConditions(OWNERS, Page(limit=5, offset=2), "created_at, id")

    assert conditions.parameters == [OWNERS, 5, 2]
    assert conditions.into(STATEMENT) == "SELECT 1 WHERE id = ANY($1) LIMIT $2 OFFSET $3"


def test_cursor_and_given_values_become_conditions() -> None:
    cursor = (NOW, new_id())
    conditions = PageConditions(OWNERS, Page(after=cursor), "created_at, id")
    conditions.add_optional("status = $", None)
    conditions.add_optional("cleared = $", False)

    assert conditions.parameters == [OWNERS, 1000, 0, *cursor, False]
    assert conditions.into(STATEMENT) == (
        "SELECT 1 WHERE id = ANY($1) AND (created_at, id) < ($4, $5) AND cleared = $6 LIMIT $2 OFFSET $3"
    )


def test_page_until_a_cursor_includes_its_item() -> None:
    cursor = (NOW, new_id())
    conditions = PageConditions(OWNERS, Page(until=cursor), "created_at, id")
    assert "(created_at, id) >= ($4, $5)" in conditions.into(STATEMENT)
    assert conditions.parameters[3:] == list(cursor)


def test_numbers_of_frequent_pages_stand_in_the_statement() -> None:
    statement = "SELECT 1 FROM unnest(/* organizations */) WHERE true/* and */ LIMIT /* rows */"
    one, two = (new_id(),), (new_id(), new_id())
    usual = OrganizationsPage(one, Page(limit=101), "created_at, id")
    rare = OrganizationsPage(two, Page(limit=100, offset=1), "created_at, id")

    assert usual.into(statement) == "SELECT 1 FROM unnest(ARRAY[$1::uuid]) WHERE true LIMIT 101"
    assert usual.parameters == [*one, 101, 0]
    assert rare.into(statement) == (
        "SELECT 1 FROM unnest($1::uuid[]) WHERE true LIMIT $2::bigint + $3::bigint"
    )
    assert rare.parameters == [two, 100, 1]


LIST = """
SELECT n::timestamptz AS created_at, id, text, items FROM (
    SELECT to_timestamp(n) AS n, id, text, items FROM unnest($1::integer[]) WITH ORDINALITY AS o (length, n)
    CROSS JOIN LATERAL (
        SELECT md5(n::text)::uuid AS id, repeat('x', length) AS text, json_build_array(length) AS items) l
) n WHERE true /* and */
ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3
"""


@dataclass(frozen=True)
class Row:
    id: UUID
    created_at: datetime
    text: str
    items: Any


async def fetch_lengths(pool: Pool, lengths: list[int], page: Page) -> tuple[list[int], bool]:
    """List rows of these lengths, the last one first; return the lengths that fit, and whether it is cut."""
    chunk = await fetch_page(pool, Row, LIST, PageConditions(lengths, page, "created_at, id"))
    assert all(row.items == [len(row.text)] for row in chunk)
    return [len(row.text) for row in chunk], chunk.is_cut


async def test_chunk_has_as_many_rows_as_fit(pool: Pool) -> None:
    lengths, room = [5000, 10, 9000, 2000, 1000], Page(max_bytes=5000)

    assert await fetch_lengths(pool, lengths, room) == ([1000, 2000], True)
    assert await fetch_lengths(pool, lengths[:3], room) == ([9000], True)
    assert await fetch_lengths(pool, lengths[:2], replace(room, max_bytes=6100)) == ([10, 5000], False)
    assert await fetch_lengths(pool, [], room) == ([], False)


async def test_chunk_is_cut_only_within_its_page(pool: Pool) -> None:
    assert await fetch_lengths(pool, [1, 2, 3], Page(limit=2)) == ([3, 2], False)
    assert await fetch_lengths(pool, [1, 2, 3], Page(limit=1, offset=1, max_bytes=0)) == ([2], False)
    assert await fetch_lengths(pool, [1, 2, 3], Page(limit=2, offset=1, max_bytes=0)) == ([2], True)


def test_columns_of_every_possible_length_are_measured() -> None:
    assert list(long_columns(Document)) == ["title", "content", "content_type", "path", "author"]
    assert list(long_columns(Message)) == ["subject", "body", "attachments", "address", "error"]
    assert {"error", "metadata", "agent_name"} <= set(long_columns(TraceSummary))
    assert "tags" in set(long_columns(Agent))
    assert "created_at" not in set(long_columns(Agent))
