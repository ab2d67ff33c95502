"""The id of a request, which its response and every log line about it carry."""

import re
from contextvars import ContextVar
from random import getrandbits

from aiohttp import web
from structlog.typing import EventDict, WrappedLogger

HEADER = "X-Request-ID"
USABLE = re.compile(r"[ -~]{1,128}")
HEADERS = web.RequestKey("headers", dict[str, str])  # of the answer to the request, its id among them

_current: ContextVar[str] = ContextVar("request_id")


def fresh_id() -> str:
    """Return a random id; it need not be hard to guess."""
    return f"{getrandbits(128):032x}"


def begin_request(request: web.Request) -> None:
    """Give a request its id."""
    current_id = id_of(request)
    request[HEADERS] = {HEADER: current_id}
    _current.set(current_id)


def request_id(request: web.Request) -> str:
    return request[HEADERS][HEADER]


def early_headers(request: web.Request) -> dict[str, str]:
    """Return the headers that a streamed response must send at once; others get them from the dispatcher."""
    return request[HEADERS]


def id_of(request: web.BaseRequest) -> str:
    """Return the id that the client sent if it is usable, else a new one."""
    sent = request.headers.get(HEADER, "")
    return sent if USABLE.fullmatch(sent) else fresh_id()


def name_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the id of the current request to a log line; a structlog processor."""
    current = _current.get(None)
    if current is not None:
        event.setdefault("request_id", current)
    return event
