"""Reading a page of a list: chunk by chunk, each bounded in bytes, as JSON."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from uuid import UUID

from storage.postgres.paging import Chunk, Cursor, JsonChunk, Page
from web.json import to_json

Item = TypeVar("Item")

FIRST_ROWS = 100  # to look at for the first chunk, when the length of the rows is unknown
MAX_ROWS = 500  # to look at for a later one
GROWTH = 4  # how many times as many rows as the chunk before contained may be looked at for the next one
ALL = 2**31  # the limit of a page that is a whole list


def cursor_by_creation(item: Any) -> Cursor:
    return item.created_at, item.id


ReadPage = Callable[[Page], Awaitable[JsonChunk]]
"""Reads the first chunk of a page of a list."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """The way to read a list; `find` returns an item that the caller may pass as `after`, or None.

    A list without `find` accepts no `after`.
    """

    read: ReadPage
    find: Callable[[UUID], Awaitable[Item | None]] | None
    cursor: Callable[[Item], Cursor] = cursor_by_creation


def serialized(
    fetch: Callable[[Page], Awaitable[Chunk[Item]]],
    serialize: Callable[[Item], Mapping[str, Any]],
    cursor: Callable[[Item], Cursor] = cursor_by_creation,
) -> ReadPage:
    """Return how to read a list of items that Python writes as JSON."""

    async def read(page: Page) -> JsonChunk:
        chunk = await fetch(page.with_next())
        items = chunk[: page.limit]
        text = to_json([serialize(item) for item in items])[1:-1]
        last = cursor(items[-1]) if items else None
        return JsonChunk(text, len(items), last, has_more=chunk.is_cut or len(chunk) > len(items))

    return read


class PageReader:
    """The items of one page, in chunks of JSON without brackets. Call `read` until `is_over`.

    After the first chunk, `next_after` is the id of the page's last item if another page follows. The page
    ends with that item, whatever is inserted or deleted before the rest has been read.
    """

    def __init__(self, read: ReadPage, page: Page) -> None:
        self._read = read
        self._page = page
        self._count = 0  # of the items in the last chunk
        self.next_after: UUID | None = None
        self.is_over = False

    async def read(self) -> bytes:
        """Return the next chunk, which is empty only at the end of a list."""
        chunk = await (self._read_next() if self._count else self._read_first())
        if chunk.last is not None:
            self._page = replace(self._page, after=chunk.last, offset=0)
        self._count = chunk.count
        return chunk.items

    async def _read_first(self) -> JsonChunk:
        limit = self._page.limit
        chunk = await self._read(replace(self._page, limit=min(limit, FIRST_ROWS)))
        if chunk.last is None or not chunk.has_more:
            self.is_over = True
        elif chunk.count == limit:
            self.is_over = True
            _, self.next_after = chunk.last
        elif limit != ALL:
            await self._find_last(chunk.last, limit - chunk.count)
        return chunk

    async def _find_last(self, after: Cursor, remaining: int) -> None:
        """Find the last item of the page, `remaining` items after the cursor, without those in between."""
        end = await self._read(Page(after, limit=1, offset=remaining - 1, max_bytes=0))
        if end.last is not None:
            self._page = replace(self._page, until=end.last)
            self.next_after = end.last[1] if end.has_more else None

    async def _read_next(self) -> JsonChunk:
        rows = min(MAX_ROWS, GROWTH * self._count)
        chunk = await self._read(replace(self._page, limit=rows))
        self.is_over = not chunk.has_more
        return chunk
