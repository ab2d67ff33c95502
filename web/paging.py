"""Lists, newest first: a page with a link to the next one, or the whole list as a stream."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

import structlog
from aiohttp import web
from marshmallow import ValidationError

from storage import ids
from storage.postgres.paging import Cursor, Page
from web.access.path_access import Owned
from web.app_keys import LIST_TURNS, SETTINGS
from web.errors import Invalid
from web.fields import MAX_OFFSET, Integer, Uuid, unknown_id
from web.json import JSON_TYPE, json_response, to_json
from web.observability.request_id import early_headers
from web.request.parsing import Body

Item = TypeVar("Item")


class OwnedRecord(Owned, Protocol):
    """A resource of one organization that lists show by its creation time."""

    @property
    def id(self) -> UUID: ...
    @property
    def created_at(self) -> datetime: ...


Record = TypeVar("Record", bound=OwnedRecord)
Filters = TypeVar("Filters", contravariant=True)


class OwnedStore(Protocol[Filters, Record]):
    """The stored resources of one kind; `filters` name the organizations whose resources are listed."""

    async def list_page(self, filters: Filters, page: Page, /) -> list[Record]: ...
    async def get(self, resource_id: UUID, /) -> Record | None: ...


log = structlog.get_logger(__name__)

FIRST_ROWS = 50  # of a list, as long as the length of its rows is unknown
MAX_ROWS = 1000
CHUNK_BYTES = 262_144
PIECE_BYTES = 65_536


class PageQuery(Body):
    """The requested part of a list; all of it without `limit`."""

    limit = Integer(min_value=1, max_value=1000, load_default=None)
    offset = Integer(min_value=0, max_value=MAX_OFFSET, load_default=None)
    after = Uuid(load_default=None)

    def check_together(self, checked: Mapping[str, Any]) -> None:
        if checked.get("offset") is not None and checked.get("after") is not None:
            raise ValidationError({"_schema": ["Only one of offset and after may be given."]})


def cursor_by_creation(item: Any) -> Cursor:
    return item.created_at, item.id


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """The way to read a list; `find` returns an item that the caller may pass as `after`, or None."""

    fetch: Callable[[Page], Awaitable[list[Item]]]
    find: Callable[[UUID], Awaitable[Item | None]]
    serialize: Callable[[Item], Mapping[str, Any]]
    cursor: Callable[[Item], Cursor] = cursor_by_creation


async def answer_owned_list(
    request: web.Request,
    query: Mapping[str, Any],
    organization_ids: Collection[UUID],
    store: OwnedStore[Filters, Record],
    filters: Filters,
    serialize: Callable[[Record], Mapping[str, Any]],
) -> web.StreamResponse:
    """Answer with what the store lists, newest first. Only items of these organizations serve as `after`."""
    find = find_owned(organization_ids, store.get)
    return await answer_list(request, query, Listing(partial(store.list_page, filters), find, serialize))


def find_owned(
    organization_ids: Collection[UUID], get: Callable[[UUID], Awaitable[Record | None]]
) -> Callable[[UUID], Awaitable[Record | None]]:
    """Return a function that gets an item, or None if it does not belong to one of these organizations."""

    async def find(item_id: UUID) -> Record | None:
        item = await get(item_id)
        return item if item is not None and item.organization_id in organization_ids else None

    return find


async def answer_list(
    request: web.Request, query: Mapping[str, Any], listing: Listing[Item]
) -> web.StreamResponse:
    """Answer with the page that the query asks for, or the whole list if it has no limit."""
    after = await _cursor(query["after"], listing)
    offset = query["offset"] or 0
    if query["limit"] is None:
        return await _answer_all(request, listing, Page(after=after, limit=FIRST_ROWS, offset=offset))
    limit: int = query["limit"]
    items = await listing.fetch(Page(after=after, limit=limit + 1, offset=offset))
    body = [listing.serialize(item) for item in items[:limit]]
    if len(items) <= limit:
        return json_response(body)
    _, last_id = listing.cursor(items[limit - 1])
    return json_response(body, headers={"Link": _next_link(request, last_id, limit)})


async def _cursor(after: UUID | None, listing: Listing[Item]) -> Cursor | None:
    if after is None:
        return None
    item = await listing.find(after)
    if item is not None:
        return listing.cursor(item)
    # The item may have been deleted since. An item gets its creation time before its id, so a cursor made
    # from the id skips nothing; items of the same millisecond may appear twice.
    latest_creation = ids.latest_creation(after)
    if latest_creation is None:
        raise Invalid({"after": [unknown_id(after)]})
    return latest_creation, after


def _next_link(request: web.Request, last_id: UUID, limit: int) -> str:
    url = request.rel_url.without_query_params("offset").update_query(after=str(last_id), limit=str(limit))
    return f'<{request.app[SETTINGS].base_url or _origin(request)}{url}>; rel="next"'


def _origin(request: web.Request) -> str:
    """Return the origin that the client used; blank without a Host header, so that links are relative."""
    host = request.headers.get("Host")
    return f"{request.scheme}://{host}" if host else ""


async def _answer_all(request: web.Request, listing: Listing[Item], page: Page) -> web.StreamResponse:
    items, after = await _chunk(listing, page)
    headers = {"Content-Type": JSON_TYPE}
    if after is None:
        return web.Response(body=b"[%b]" % items, headers=headers)
    response = web.StreamResponse(headers={**headers, **early_headers(request)})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    try:
        await response.write(b"[")
        await _write(response, items)
        rest = Page(after=after, limit=_rows_like(items, page.limit))
        del items  # a slow reader would keep it in memory to the end
        await _write_rest(response, listing, rest, request.app[LIST_TURNS])
        await response.write(b"]")
        await response.write_eof()
    except ConnectionError:
        pass  # the client has disconnected
    except Exception:  # the request's outermost edge; the status has been sent, so no error can follow
        log.exception("list aborted", path=request.path)
        if request.transport is not None:
            request.transport.abort()  # tells the client that the list is incomplete
    return response


async def _write_rest(
    response: web.StreamResponse, listing: Listing[Item], page: Page, turns: asyncio.Semaphore
) -> None:
    """Write the rest of a list in chunks. Long lists take turns, so that they leave room for other requests.

    A slow reader delays only itself: while it reads, it holds no turn and no connection, only one chunk.
    """
    while page.after is not None:
        async with turns:
            items, after = await _chunk(listing, page)
        page = Page(after=after, limit=_rows_like(items, page.limit))
        if items:
            await response.write(b",")
            await _write(response, items)


async def _chunk(listing: Listing[Item], page: Page) -> tuple[bytes, Cursor | None]:
    """Return the next items as JSON without brackets, and the cursor behind them, None at the end."""
    items = await listing.fetch(page)
    after = listing.cursor(items[-1]) if len(items) == page.limit else None
    return to_json([listing.serialize(item) for item in items])[1:-1], after


def _rows_like(items: bytes, count: int) -> int:
    """Return how many rows make a chunk if they are as long as these."""
    return max(1, min(MAX_ROWS, CHUNK_BYTES * count // max(1, len(items))))


async def _write(response: web.StreamResponse, items: bytes) -> None:
    """Write in pieces, because the transport copies everything that the reader has not taken yet."""
    for start in range(0, len(items), PIECE_BYTES):
        await response.write(items[start : start + PIECE_BYTES])
