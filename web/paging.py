"""Lists: bare arrays, newest first; a page with a link to the next, or all of it in a stream."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

import structlog
from aiohttp import web
from marshmallow import ValidationError

from storage.paging import Cursor, Page
from web.errors import Invalid
from web.fields import MOST_OFFSET, Integer, Uuid, unknown_id
from web.json import JSON_TYPE, json_response, to_json
from web.keys import SETTINGS
from web.parsing import Body

Item = TypeVar("Item")

log = structlog.get_logger(__name__)

CHUNK = 1000


class PageQuery(Body):
    """Which part of a list is wanted; without `limit` all of it."""

    limit = Integer(least=1, most=1000, load_default=None)
    offset = Integer(least=0, most=MOST_OFFSET, load_default=None)
    after = Uuid(load_default=None)

    def check_together(self, checked: Mapping[str, Any]) -> None:
        if checked.get("offset") is not None and checked.get("after") is not None:
            raise ValidationError({"_schema": ["Only one of offset and after may be given."]})


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """How to read a list; `find` gives an item the caller may name as the last one seen."""

    fetch: Callable[[Page], Awaitable[list[Item]]]
    find: Callable[[UUID], Awaitable[Item | None]]
    cursor: Callable[[Item], Cursor]
    show: Callable[[Item], Mapping[str, Any]]


async def answer_list(
    request: web.Request, query: Mapping[str, Any], listing: Listing[Item]
) -> web.StreamResponse:
    """The page that the query asks for, else the whole list."""
    after = await _cursor(query["after"], listing)
    offset = query["offset"] or 0
    if query["limit"] is None:
        return await _answer_all(request, listing, Page(after=after, limit=CHUNK, offset=offset))
    limit: int = query["limit"]
    items = await listing.fetch(Page(after=after, limit=limit + 1, offset=offset))
    shown = [listing.show(item) for item in items[:limit]]
    if len(items) <= limit:
        return json_response(shown)
    _, last_id = listing.cursor(items[limit - 1])
    return json_response(shown, headers={"Link": _next_link(request, last_id, limit)})


async def _cursor(after: UUID | None, listing: Listing[Item]) -> Cursor | None:
    if after is None:
        return None
    item = await listing.find(after)
    if item is None:
        raise Invalid({"after": [unknown_id(after)]})
    return listing.cursor(item)


def _next_link(request: web.Request, last_id: UUID, limit: int) -> str:
    url = request.rel_url.without_query_params("offset").update_query(after=str(last_id), limit=str(limit))
    return f'<{request.app[SETTINGS].base_url}{url}>; rel="next"'


async def _answer_all(request: web.Request, listing: Listing[Item], page: Page) -> web.StreamResponse:
    items = await listing.fetch(page)
    if len(items) < CHUNK:
        return json_response([listing.show(item) for item in items])
    response = web.StreamResponse(headers={"Content-Type": JSON_TYPE})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    try:
        await _stream(response, listing, items)
    except ConnectionError:
        pass  # the reader has left
    except Exception:  # the request's outermost edge: the status is out, so no other answer can be given
        log.exception("list broken off", path=request.path)
        if request.transport is not None:
            request.transport.abort()  # the only way left to say that the list is not whole
    return response


async def _stream(response: web.StreamResponse, listing: Listing[Item], items: list[Item]) -> None:
    """Chunk by chunk by keyset, no connection held between them; a slow reader holds up only itself."""
    separator = b"["
    while items:
        await response.write(separator + to_json([listing.show(item) for item in items])[1:-1])
        separator = b","
        if len(items) < CHUNK:
            break
        items = await listing.fetch(Page(after=listing.cursor(items[-1]), limit=CHUNK))
    await response.write(b"]")
    await response.write_eof()
