"""Pages that are read chunk by chunk."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from storage.postgres.paging import Chunk, Page
from web.paging import ALL, FIRST_ROWS, Listing, PageReader


@dataclass(frozen=True)
class Thing:
    number: int

    @property
    def id(self) -> UUID:
        return UUID(int=self.number)

    @property
    def created_at(self) -> datetime:
        return datetime(2020, 2, 2, tzinfo=UTC) + timedelta(seconds=self.number)


class Things:
    """A list of numbers, in chunks of at most `size`; it keeps the limits of the pages that were read."""

    def __init__(self, count: int, size: int) -> None:
        self.numbers = list(range(count - 1, -1, -1))
        self.size = size
        self.limits: list[int] = []

    async def list_page(self, page: Page) -> Chunk[Thing]:
        self.limits.append(page.limit)
        things = [Thing(number) for number in self.numbers]
        if page.after is not None:
            things = [thing for thing in things if (thing.created_at, thing.id) < page.after]
        if page.until is not None:
            things = [thing for thing in things if (thing.created_at, thing.id) >= page.until]
        wanted = things[page.offset : page.offset + page.limit]
        fitting = wanted[: max(1, min(self.size, page.max_bytes))]
        return Chunk(fitting, is_cut=len(fitting) < len(wanted))

    def reader(self, limit: int = ALL, offset: int = 0) -> PageReader[Thing]:
        def serialize(thing: Thing) -> dict[str, Any]:
            return {"n": thing.number, "id": thing.id, "created_at": thing.created_at}

        return PageReader(Listing(self.list_page, serialize), Page(limit=limit, offset=offset))


async def read_rest(reader: PageReader[Thing]) -> list[int]:
    numbers = []
    while not reader.is_over:
        numbers += [item["n"] for item in json.loads(b"[%b]" % await reader.read())]
    return numbers


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("count", [0, 1, 30, FIRST_ROWS - 1, FIRST_ROWS, FIRST_ROWS + 1, 700])
async def test_whole_list_is_read_in_order(count: int, size: int) -> None:
    things = Things(count, size)
    assert await read_rest(things.reader()) == things.numbers


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("limit", [1, 7, 8, FIRST_ROWS, FIRST_ROWS + 1, 399, 400])
async def test_page_is_read_in_order(limit: int, size: int) -> None:
    things = Things(401, size)
    reader = things.reader(limit, offset=1)

    assert await read_rest(reader) == things.numbers[1 : limit + 1]
    assert reader.next_after == (None if limit == 400 else UUID(int=400 - limit))


async def test_short_page_needs_one_read() -> None:
    things = Things(401, size=1000)
    await read_rest(things.reader(limit=FIRST_ROWS))
    assert things.limits == [FIRST_ROWS + 1]


async def test_next_read_looks_at_few_rows_after_short_chunk() -> None:
    things = Things(100, size=3)
    await read_rest(things.reader())
    assert set(things.limits[1:]) == {12 + 1}


async def test_page_ends_where_its_link_begins_despite_deletions() -> None:
    things = Things(50, size=5)
    reader = things.reader(limit=20)
    first = json.loads(b"[%b]" % await reader.read())
    assert (len(first), reader.next_after) == (5, UUID(int=30))

    for number in (49, 44, 43, 30, 29):
        things.numbers.remove(number)

    assert await read_rest(reader) == list(range(42, 30, -1))
