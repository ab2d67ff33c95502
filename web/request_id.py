"""The id of a request: the client's own if it is usable, else a fresh one; echoed, and in every log line."""

import re
from contextvars import ContextVar
from random import getrandbits

from aiohttp import web
from aiohttp.typedefs import Handler
from structlog.typing import EventDict, WrappedLogger

HEADER = "X-Request-ID"
USABLE = re.compile(r"[ -~]{1,128}")
ID = web.RequestKey("request_id", str)

# A connection's requests share one context, so each takes the place of the one before.
_current: ContextVar[str] = ContextVar("request_id")


def fresh_id() -> str:
    return f"{getrandbits(128):032x}"  # nothing hangs on its being hard to guess


def request_id(request: web.Request) -> str:
    return request[ID]


@web.middleware
async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Name the request before anything can be said about it."""
    given = request.headers.get(HEADER, "")
    request[ID] = name = given if given and USABLE.fullmatch(given) else fresh_id()
    _current.set(name)
    response = await handler(request)
    if not response.prepared:  # a streamed one has gone out with it
        response.headers[HEADER] = name
    return response


def name_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Processor of log lines: whatever is logged on behalf of a request says of which."""
    current = _current.get(None)
    if current is not None:
        event.setdefault("request_id", current)
    return event
