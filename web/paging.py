"""Lists, newest first: a page with a link to the next one, or the whole list.

Either is read and sent in chunks, each bounded in bytes. What fits one chunk is sent at once; what is longer
is a stream.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from uuid import UUID

import structlog
from aiohttp import web
from marshmallow import ValidationError

from storage import ids
from storage.postgres.paging import Chunk, Cursor, Page
from storage.postgres.query import Period
from web.access.auth import CALLER
from web.app_keys import ROOM, SETTINGS
from web.errors import PermissionDenied
from web.fields import MAX_OFFSET, Integer, UtcDatetime, Uuid
from web.json import JSON_TYPE, to_json
from web.request.parsing import Body
from web.request_room import LIST_UNITS, PLACE

Item = TypeVar("Item")

FIRST_ROWS = 100  # to look at for the first chunk, when the length of the rows is unknown
MAX_ROWS = 500  # to look at for a later one
GROWTH = 4  # how many times as many rows as the chunk before contained may be looked at for the next one
ALL = 2**31  # the limit of a page that is a whole list


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """The way to read a list, newest first, and to show its items.

    `find` returns the item that the caller passed as `after`, None if there is none, and `is_visible` whether
    the caller may see it; a listing without `find` takes no `after`. `time` names the field by which the list
    is ordered.
    """

    fetch: Callable[[Page], Awaitable[Chunk[Item]]]
    serialize: Callable[[Item], Mapping[str, Any]]
    find: Callable[[UUID], Awaitable[Any | None]] | None = None
    is_visible: Callable[[Any], bool] = lambda _: True
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


log = structlog.get_logger(__name__)

PIECE_BYTES = 65_536
TOTAL_HEADER = "X-Total-Count"


class PageQuery(Body):
    """The requested part of a list; all of it without `limit`."""

    limit = Integer(min_value=1, max_value=1000, load_default=None)
    """The maximum number of items; a `Link` header leads to the next page while there is one."""
    offset = Integer(min_value=0, max_value=MAX_OFFSET, load_default=None)
    """The number of items to skip; not together with `after`, which stays fast in long lists."""
    after = Uuid(load_default=None)
    """The id of the last item of the previous page: the items that follow it are listed."""

    def check_together(self, checked: Mapping[str, Any]) -> None:
        if checked.get("offset") is not None and checked.get("after") is not None:
            raise ValidationError({"_schema": ["Only one of offset and after may be given."]})


class CreatedPageQuery(PageQuery):
    """The requested part of a list, and when its items were created."""

    created_after = UtcDatetime(load_default=None)
    """Only items created at this time or later. Without an offset it is UTC."""
    created_before = UtcDatetime(load_default=None)
    """Only items created before this time. Without an offset it is UTC."""


def period(query: Mapping[str, Any], name: str) -> Period:
    """Return the period of a query that has the parameters `<name>_after` and `<name>_before`."""
    return Period(query[f"{name}_after"], query[f"{name}_before"])


async def answer_list(
    request: web.Request, query: Mapping[str, Any], listing: Listing[Item]
) -> web.StreamResponse:
    """Answer with the page that the query asks for, newest first, or the whole list if it has no limit.

    Raise Unavailable if it is longer than one chunk and too many such lists are being sent.
    """
    after = await _cursor(query["after"], listing)
    page = Page(after=after, limit=query["limit"] or ALL, offset=query["offset"] or 0)
    reader = PageReader(listing, page)

    def link() -> dict[str, str]:
        return next_link(request, reader.next_after, page.limit) if reader.next_after else {}

    return await send_page(request, reader, b"[", b"]", link)


async def answer_owned(
    request: web.Request,
    query: Mapping[str, Any],
    organization_ids: Collection[UUID],
    get: Callable[[UUID], Awaitable[Any | None]],
    fetch: Callable[[Page], Awaitable[Chunk[Item]]],
    serialize: Callable[[Item], Mapping[str, Any]],
    time: str = "created_at",
) -> web.StreamResponse:
    """Answer as `answer_list` does, with items that these organizations own."""

    def is_visible(item: Any) -> bool:
        return item.organization_id in organization_ids

    return await answer_list(request, query, Listing(fetch, serialize, get, is_visible, time))


async def send_page(
    request: web.Request,
    reader: PageReader[Item],
    opening: bytes,
    closing: bytes,
    headers: Callable[[], Mapping[str, str]] = dict,
) -> web.StreamResponse:
    """Send the items of a page between `opening` and `closing`: at once if they fit one chunk.

    `headers` is called after the first chunk has been read. Raise Unavailable for a longer page, if too many
    are being sent already.
    """
    items = await _read(request, reader)
    all_headers = {**headers(), "Content-Type": JSON_TYPE}
    if reader.is_over:
        return web.Response(body=opening + items + closing, headers=all_headers)

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal items
        yield opening
        yield items
        while not reader.is_over:
            items = b""  # it was written
            items = await _read(request, reader)
            if items:
                yield b","
                yield items
        yield closing

    return await send_pieces(request, all_headers, pieces())


async def _read(request: web.Request, reader: PageReader[Item]) -> bytes:
    """Read the next chunk when it is the turn of the caller's organization."""
    async with request.app[ROOM].reading(request[CALLER].accountable):
        return await reader.read()


async def write_in_pieces(response: web.StreamResponse, items: bytes) -> None:
    """Write in pieces: the transport copies all of a piece that the reader has not taken yet."""
    for start in range(0, len(items), PIECE_BYTES):
        await response.write(items[start : start + PIECE_BYTES])


async def send_pieces(
    request: web.Request, headers: Mapping[str, str], pieces: AsyncIterator[bytes], size: int | None = None
) -> web.StreamResponse:
    """Send what is too long for one piece, of `size` bytes if that is known.

    Raise Unavailable if too many lists and files are being sent already. An error before the first piece is
    answered; a later one aborts the connection.
    """
    with request[PLACE].more(LIST_UNITS):
        response = web.StreamResponse(headers=headers)
        response.content_length = size
        first = await anext(pieces, b"") if request.method != "HEAD" else b""
        # No context manager: on Python 3.13 the error would be in a cycle with all that was not sent.
        try:
            await response.prepare(request)
            if request.method == "HEAD":
                return response
            await write_in_pieces(response, first)
            first = b""  # a slow reader would keep it in memory to the end
            async for piece in pieces:
                await write_in_pieces(response, piece)
                del piece  # it would be kept until the next one has been read
            await response.write_eof()
        except ConnectionError:
            pass  # the client has disconnected
        except Exception:  # the request's outermost edge; the status has been sent, so no error can follow
            log.exception("list aborted", path=request.path)
            if request.transport is not None:
                request.transport.abort()
    return response


async def _cursor(after: UUID | None, listing: Listing[Item]) -> Cursor | None:
    if after is None:
        return None
    item = await listing.find(after) if listing.find else None
    if item is not None:
        if not listing.is_visible(item):
            raise PermissionDenied
        return getattr(item, listing.time), item.id
    # The item may have been deleted since. An item gets its creation time before its id, so a cursor made
    # from the id skips nothing; items of the same millisecond may appear twice. Nothing follows any other id.
    return ids.latest_creation(after) or ids.EPOCH, after


def next_link(request: web.Request, after: UUID | str, limit: int) -> dict[str, str]:
    """Return the `Link` header of a page: the address of the next one, after this id or position."""
    url = request.rel_url.without_query_params("offset").update_query(after=str(after), limit=str(limit))
    return {"Link": f'<{request.app[SETTINGS].base_url or _origin(request)}{url}>; rel="next"'}


def _origin(request: web.Request) -> str:
    """Return the origin that the client used; blank without a Host header, so that links are relative."""
    host = request.headers.get("Host")
    return f"{request.scheme}://{host}" if host else ""
