"""Pages whose items PostgreSQL writes as JSON."""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.model import Notification
from storage.notifications.notifications import NotificationFilters, Notifications
from storage.postgres.json_pages import JsonItem, fetch_json
from storage.postgres.page_conditions import PageConditions
from storage.postgres.paging import JsonChunk, Page
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, stored_agent

LIST = """
SELECT created_at, id, text, items FROM (
    SELECT to_timestamp(n) AS created_at, id, text, items
    FROM unnest($1::integer[]) WITH ORDINALITY AS o (length, n)
    CROSS JOIN LATERAL (
        SELECT md5(n::text)::uuid AS id, repeat('x', length) AS text, '{ "n" : 1e0 }'::json AS items) l
) n WHERE true /* and */
ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3
"""
FILL = """
INSERT INTO notification (id, organization_id, agent_id, title, created_at)
SELECT gen_random_uuid(), organization_id, id, 'n', $2::timestamptz - n * interval '1 s'
FROM agent, generate_series(1, $1::integer) AS n
"""
PLANS = """
SELECT sum(custom_plans) FROM pg_prepared_statements WHERE statement LIKE '%string_agg%'
"""
TIMES = """
SELECT '-infinity'::timestamptz AS first, 'infinity'::timestamptz AS last, $1::timestamptz AS created_at,
       gen_random_uuid() AS id
WHERE true /* and */ LIMIT $2 OFFSET $3
"""


@dataclass(frozen=True)
class Row:
    id: UUID
    created_at: datetime
    text: str
    items: Any


@dataclass(frozen=True)
class Times:
    first: datetime
    last: datetime


ITEM = JsonItem(Row, {"text": "text", "list": "items"})


async def fetch(pool: Pool, lengths: list[int], page: Page) -> tuple[list[int], JsonChunk]:
    """List rows of these lengths, the last one first; return the lengths that fit, and the chunk."""
    conditions = PageConditions(lengths, page.with_next(), "created_at, id")
    chunk = await fetch_json(pool, ITEM, LIST, conditions)
    items = json.loads(b"[%b]" % chunk.items)
    assert len(items) == chunk.count
    assert all(item["list"] == {"n": 1.0} for item in items)
    return [len(item["text"]) for item in items], chunk


async def test_chunk_has_as_many_items_as_fit(pool: Pool) -> None:
    listed, chunk = await fetch(pool, [5000, 10, 9000, 2000, 1000], Page(max_bytes=5000))
    assert (listed, chunk.has_more) == ([1000, 2000], True)
    listed, chunk = await fetch(pool, [5000, 10, 9000], Page(max_bytes=5000))
    assert (listed, chunk.has_more) == ([9000], True)
    listed, chunk = await fetch(pool, [5000], Page(max_bytes=5000))
    assert (listed, chunk.has_more) == ([5000], False)


async def test_chunk_ends_with_the_cursor_of_its_last_item(pool: Pool) -> None:
    listed, chunk = await fetch(pool, [1, 2, 3, 4], Page(limit=2))
    assert (listed, chunk.has_more) == ([4, 3], True)
    listed, rest = await fetch(pool, [1, 2, 3, 4], Page(after=chunk.last, limit=2))
    assert (listed, rest.has_more) == ([2, 1], False)
    listed, end = await fetch(pool, [1, 2, 3, 4], Page(limit=9, until=chunk.last))
    assert (listed, end.last, end.has_more) == ([4, 3], chunk.last, False)


async def test_empty_page_is_an_empty_chunk(pool: Pool) -> None:
    assert (await fetch(pool, [1], Page(offset=1)))[1] == JsonChunk(b"", 0, None, has_more=False)


async def test_stored_json_is_written_like_a_decoded_value(pool: Pool) -> None:
    _, chunk = await fetch(pool, [1], Page())
    assert chunk.items == b'{"text":"x","list":{"n":1.0}}'


async def test_infinite_times_are_the_ends_of_the_calendar(pool: Pool) -> None:
    item = JsonItem(Times, {"first": "first", "last": "last"})
    chunk = await fetch_json(pool, item, TIMES, PageConditions(NOW, Page().with_next(), "created_at, id"))
    assert json.loads(chunk.items) == {
        "first": "0001-01-01T00:00:00.000000Z",
        "last": "9999-12-31T23:59:59.999999Z",
    }


async def test_frequent_page_is_planned_once(pool: Pool) -> None:
    agent = await stored_agent(pool)
    await pool.execute(FILL, 5000, NOW)
    await pool.execute("ANALYZE notification")
    notifications = Notifications(pool, on_commit=lambda _: None, sleep=asyncio.sleep)
    item = JsonItem(Notification, {"id": "id", "title": "title"})
    filters = NotificationFilters((agent.organization_id,))
    for _ in range(12):
        chunk = await notifications.list_json(filters, Page(limit=100), item)
        assert (chunk.count, chunk.has_more) == (100, True)

    # PostgreSQL plans a statement five times for its parameters before it compares.
    assert await pool.fetchval(PLANS) == 5
