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


def cursor_by_creation(item: Any) -> Cursor:
    return item.created_at, item.id


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """The way to read a list; `find` returns an item that the caller may pass as `after`, or None.

    A list without `find` accepts no `after`.
    """

    fetch: Callable[[Page], Awaitable[Chunk[Item]]]
    find: Callable[[UUID], Awaitable[Item | None]] | None
    serialize: Callable[[Item], Mapping[str, Any]]
    cursor: Callable[[Item], Cursor] = cursor_by_creation


class PageReader(Generic[Item]):
    """The items of one page, in chunks of JSON without brackets. Call `read` until `is_over`.

    After the first chunk, `next_after` is the id of the page's last item if another page follows. The page
    ends with that item, whatever is inserted or deleted before the rest has been read.
    """

    def __init__(self, listing: Listing[Item], page: Page) -> None:
        self._listing = listing
        self._page = page
        self._count = 0  # of the items in the last chunk
        self._last: Cursor | None = None  # of the page, None if it ends with the list
        self.next_after: UUID | None = None
        self.is_over = False

    async def read(self) -> bytes:
        """Return the next chunk, which is empty only at the end of a list."""
        items = await (self._fetch_next() if self._count else self._fetch_first())
        if items:
            self._page = replace(self._page, after=self._listing.cursor(items[-1]), offset=0)
        self._count = len(items)
        return to_json([self._listing.serialize(item) for item in items])[1:-1]

    async def _fetch_first(self) -> list[Item]:
        page = self._page
        rows = page.limit + 1 if page.limit <= FIRST_ROWS else FIRST_ROWS
        chunk = await self._listing.fetch(replace(page, limit=rows))
        if len(chunk) < rows and not chunk.is_cut:
            self.is_over = True
        elif len(chunk) >= page.limit:
            del chunk[page.limit :]
            self.is_over = True
            _, self.next_after = self._listing.cursor(chunk[-1])
        elif page.limit != ALL:
            await self._find_last(self._listing.cursor(chunk[-1]), page.limit - len(chunk))
        return chunk

    async def _find_last(self, after: Cursor, remaining: int) -> None:
        """Find the last item of the page, `remaining` items after the cursor, without those in between."""
        end = Page(after, limit=2, offset=remaining - 1, max_bytes=0)
        chunk = await self._listing.fetch(end)
        if chunk:
            self._last = self._listing.cursor(chunk[0])
            self.next_after = self._last[1] if chunk.is_cut else None

    async def _fetch_next(self) -> list[Item]:
        rows = min(MAX_ROWS, GROWTH * self._count)
        chunk = await self._listing.fetch(replace(self._page, limit=rows))
        items = [item for item in chunk if self._last is None or self._listing.cursor(item) >= self._last]
        is_end_of_list = len(chunk) < rows and not chunk.is_cut
        self.is_over = is_end_of_list or len(items) < len(chunk)
        if items and self._listing.cursor(items[-1]) == self._last:
            self.is_over = True
        return items
