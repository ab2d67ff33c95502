"""The function around every request: it gives the request its id, answers its errors, and counts it."""

import re
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from random import getrandbits
from time import perf_counter
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from structlog.typing import EventDict, WrappedLogger

HEADER = "X-Request-ID"
USABLE = re.compile(r"[ -~]{1,128}")
HEADERS = web.RequestKey("headers", dict[str, str])  # of the answer to the request, its id among them
BUCKET_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # upper bounds

Refuse = Callable[[web.Request, Exception], Awaitable[web.StreamResponse]]

_current: ContextVar[str] = ContextVar("request_id")


def fresh_id() -> str:
    """Return a random id; it need not be hard to guess."""
    return f"{getrandbits(128):032x}"


def id_of(request: web.BaseRequest) -> str:
    """Return the id that the client sent if it is usable, else a new one."""
    sent = request.headers.get(HEADER, "")
    return sent if USABLE.fullmatch(sent) else fresh_id()


def request_id(request: web.Request) -> str:
    return request[HEADERS][HEADER]


def name_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the id of the current request to a log line; a structlog processor."""
    current = _current.get(None)
    if current is not None:
        event.setdefault("request_id", current)
    return event


class Answered(NamedTuple):
    """A group of answers: method and pattern of the route, "*" if no route fits, and status."""

    method: str
    route: str
    status: int


class RequestCounts:
    """The answers since the start of the process. Every request calls `add`, so it does very little."""

    def __init__(self) -> None:
        # Counts by bucket, one more for longer ones, and last the sum of seconds.
        self._counts: dict[tuple[web.AbstractRoute | None, int], list[float]] = {}

    def add(self, route: web.AbstractRoute, status: int, seconds: float) -> None:
        """Count a request of this route that was answered after `seconds`."""
        # aiohttp makes a new route object for each request that no route fits; as keys they would pile up.
        key = (route if route.resource is not None else None, status)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(BUCKET_SECONDS) + 1) + [0.0]
        counts[bisect_left(BUCKET_SECONDS, seconds)] += 1
        counts[-1] += seconds

    def snapshot(self) -> Mapping[Answered, list[float]]:
        """Return for each group the counts by bucket, one more for longer ones, and the sum of seconds."""
        return {_answered(route, status): list(counts) for (route, status), counts in self._counts.items()}


def around_requests(counts: RequestCounts, refuse: Refuse) -> Middleware:
    """Return the middleware of the application."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = perf_counter()  # the loop's own clock advances only once per iteration
        current_id = id_of(request)
        request[HEADERS] = {HEADER: current_id}
        _current.set(current_id)
        try:
            response = await handler(request)
        except Exception as error:  # the request's outermost edge
            response = await refuse(request, error)
        counts.add(request.match_info.route, response.status, perf_counter() - began)
        return response

    return answer


def _answered(route: web.AbstractRoute | None, status: int) -> Answered:
    if route is None or route.resource is None:
        return Answered("*", "*", status)
    return Answered(route.method, route.resource.canonical, status)
