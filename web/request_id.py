"""The id of a request: the client's own if it is usable, else a fresh one; echoed, and in every log line."""

import re

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from storage.ids import new_id

HEADER = "X-Request-ID"
USABLE = re.compile(r"[ -~]{1,128}")
ID = web.RequestKey("request_id", str)


def request_id(request: web.Request) -> str:
    return request[ID]


@web.middleware
async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Name the request before anything can be said about it."""
    given = request.headers.get(HEADER, "")
    request[ID] = given if USABLE.fullmatch(given) else str(new_id())
    structlog.contextvars.clear_contextvars()  # a connection's requests share one context
    structlog.contextvars.bind_contextvars(request_id=request[ID])
    return await handler(request)


async def echo(request: web.Request, response: web.StreamResponse) -> None:
    """Signal on each response, streamed ones included, before its headers go out."""
    response.headers[HEADER] = request.get(ID, "")
