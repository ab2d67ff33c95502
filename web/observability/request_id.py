"""The id of a request: the client's own if it is usable, else a fresh one; echoed, and in every log line."""

import re
from contextvars import ContextVar
from random import getrandbits
from time import perf_counter

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from structlog.typing import EventDict, WrappedLogger

from web.observability.request_counts import RequestCounts

HEADER = "X-Request-ID"
USABLE = re.compile(r"[ -~]{1,128}")
ID = web.RequestKey("request_id", str)

# A connection's requests share one context, so each takes the place of the one before.
_current: ContextVar[str] = ContextVar("request_id")


def fresh_id() -> str:
    return f"{getrandbits(128):032x}"  # nothing hangs on its being hard to guess


def request_id(request: web.Request) -> str:
    return request[ID]


def name_of(request: web.BaseRequest) -> str:
    """The client's own id of a request if it is usable, else a fresh one."""
    given = request.headers.get(HEADER, "")
    return given if given and USABLE.fullmatch(given) else fresh_id()


def identifying(counts: RequestCounts) -> Middleware:
    """The outermost middleware: names a request before anything can be said about it, and counts its answer.

    The two are one because each middleware costs a request more than either of them does.
    """

    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = perf_counter()  # the loop's own clock is only set once a turn
        request[ID] = name = name_of(request)
        _current.set(name)
        response = await handler(request)
        if not response.prepared:  # a streamed one has gone out with it
            response.headers[HEADER] = name
        counts.add(request, response.status, perf_counter() - began)
        return response

    return identify


def name_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Processor of log lines: whatever is logged on behalf of a request says of which."""
    current = _current.get(None)
    if current is not None:
        event.setdefault("request_id", current)
    return event
