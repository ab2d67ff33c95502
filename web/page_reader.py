"""Reading a page of a list: chunk by chunk, each bounded in bytes, as JSON."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from uuid import UUID

from storage.postgres.paging import Chunk, Cursor, Page
from web.json import to_json

Item = TypeVar("Item")

FIRST_ROWS = 100  # to look at for the first chunk, when the length of the rows is unknown
MAX_ROWS = 500  # to look at for a later one
GROWTH = 4  # how many times as many rows as the chunk before contained may be looked at for the next one
ALL = 2**31  # the limit of a page that is a whole list


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """The way to read a list, newest first, and to show its items.

    `find` returns an item that the caller may pass as `after`, or None; without it no `after` is accepted.
    `time` names the field by which the list is ordered.
    """

    fetch: Callable[[Page], Awaitable[Chunk[Item]]]
    serialize: Callable[[Item], Mapping[str, Any]]
    find: Callable[[UUID], Awaitable[Any | None]] | None = None
    time: str = "created_at"


class PageReader(Generic[Item]):
    """The items of one page, in chunks of JSON without brackets. Call `read` until `is_over`.

    After the first chunk, `next_after` is the id of the page's last item if another page follows. The page
    ends with that item, whatever is inserted or deleted before the rest has been read.
    """

    def __init__(self, listing: Listing[Item], page: Page) -> None:
        self._listing = listing
        self._page = page
        self._count = 0  # of the items in the last chunk
        self.next_after: UUID | None = None
        self.is_over = False

    async def read(self) -> bytes:
        """Return the next chunk, which is empty only at the end of a list."""
        items = await (self._read_next() if self._count else self._read_first())
        if items:
            self._page = replace(self._page, after=self._cursor(items), offset=0)
        self._count = len(items)
        return to_json(items)[1:-1]

    async def _read_first(self) -> list[Mapping[str, Any]]:
        limit = self._page.limit
        items = await self._show(replace(self._page, limit=min(limit, FIRST_ROWS)))
        if not items.is_cut:
            self.is_over = True
        elif len(items) == limit:
            self.is_over = True
            self.next_after = items[-1]["id"]
        elif limit != ALL:
            await self._find_last(self._cursor(items), limit - len(items))
        return items

    async def _find_last(self, after: Cursor, remaining: int) -> None:
        """Find the last item of the page, `remaining` items after the cursor, without those in between."""
        end = await self._show(Page(after, limit=1, offset=remaining - 1, max_bytes=0))
        if end:
            self._page = replace(self._page, until=self._cursor(end))
            self.next_after = end[0]["id"] if end.is_cut else None

    async def _read_next(self) -> list[Mapping[str, Any]]:
        items = await self._show(replace(self._page, limit=min(MAX_ROWS, GROWTH * self._count)))
        self.is_over = not items.is_cut
        return items

    async def _show(self, page: Page) -> Chunk[Mapping[str, Any]]:
        """Return the items of a page as they are shown. The chunk is cut if the list goes on."""
        chunk = await self._listing.fetch(page.with_next())
        items = [self._listing.serialize(item) for item in chunk[: page.limit]]
        return Chunk(items, is_cut=chunk.is_cut or len(chunk) > len(items))

    def _cursor(self, items: list[Mapping[str, Any]]) -> Cursor:
        return items[-1][self._listing.time], items[-1]["id"]
