"""The id of a request: the client's own if it is usable, else a fresh one; echoed, and in every log line."""

import re
from contextvars import ContextVar

from aiohttp import web
from aiohttp.typedefs import Handler
from structlog.typing import EventDict, WrappedLogger

from storage.ids import new_id

HEADER = "X-Request-ID"
USABLE = re.compile(r"[ -~]{1,128}")
ID = web.RequestKey("request_id", str)

# A connection's requests share one context, so each takes the place of the one before.
_current: ContextVar[str] = ContextVar("request_id")


def fresh_id() -> str:
    return new_id().hex


def request_id(request: web.Request) -> str:
    return request[ID]


@web.middleware
async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Name the request before anything can be said about it."""
    request[ID] = _name(request)
    _current.set(request[ID])
    return await handler(request)


async def echo(request: web.Request, response: web.StreamResponse) -> None:
    """Signal on each response, streamed ones included, before its headers go out."""
    response.headers[HEADER] = request.get(ID) or _name(request)


def _name(request: web.BaseRequest) -> str:
    given = request.headers.get(HEADER, "")
    return given if USABLE.fullmatch(given) else fresh_id()


def name_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Processor of log lines: whatever is logged on behalf of a request says of which."""
    current = _current.get(None)
    if current is not None:
        event.setdefault("request_id", current)
    return event
