"""The id of a request, which its response and every log line about it carry."""

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
FURTHER_HEADERS = web.RequestKey("further_headers", dict[str, str])  # that the response must carry

# The requests of a connection share one context, so each id replaces the one before.
_current: ContextVar[str] = ContextVar("request_id")


def fresh_id() -> str:
    """Return a random id; it need not be hard to guess."""
    return f"{getrandbits(128):032x}"


def request_id(request: web.Request) -> str:
    return request[ID]


def early_headers(request: web.Request) -> dict[str, str]:
    """Return the headers that a streamed response must send at once; others get them from the middleware."""
    return {HEADER: request[ID], **request.get(FURTHER_HEADERS, {})}


def id_of(request: web.BaseRequest) -> str:
    """Return the id that the client sent if it is usable, else a new one."""
    sent = request.headers.get(HEADER, "")
    return sent if USABLE.fullmatch(sent) else fresh_id()


def identify_requests(counts: RequestCounts) -> Middleware:
    """Return the outermost middleware, which gives each request its id and counts its response.

    It does both because each further middleware costs a request more than either task.
    """

    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = perf_counter()  # the loop's own clock advances only once per iteration
        request[ID] = current_id = id_of(request)
        _current.set(current_id)
        response = await handler(request)
        if not response.prepared:  # a streamed response has already sent its headers, with these
            response.headers[HEADER] = current_id
            if FURTHER_HEADERS in request:
                response.headers.update(request[FURTHER_HEADERS])
        counts.add(request, response.status, perf_counter() - began)
        return response

    return identify


def name_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the id of the current request to a log line; a structlog processor."""
    current = _current.get(None)
    if current is not None:
        event.setdefault("request_id", current)
    return event
