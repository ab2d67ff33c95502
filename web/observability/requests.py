"""The ids of requests, for answers and log lines, and the counts of their answers."""

import re
from bisect import bisect_left
from collections.abc import Mapping
from contextvars import ContextVar
from random import getrandbits
from typing import NamedTuple

from aiohttp import web
from structlog.typing import EventDict, WrappedLogger

HEADER = "X-Request-ID"
HINT_HEADER = "X-Hint"
USABLE = re.compile(r"[ -~]{1,128}")
HEADERS = web.RequestKey("headers", dict[str, str])  # of the answer to the request, its id among them
TOKEN_OF_HOOK = re.compile(
    r"^(/+hooks/+[^/]+/+)[^/].*", re.DOTALL
)  # in a path, whether it has a route or not
BUCKET_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # upper bounds

CURRENT_ID: ContextVar[str] = ContextVar("request_id")


def id_for(sent: str = "") -> str:
    """Return the id that a client sent if it is usable, else a random one, which may be guessed."""
    return sent if sent and USABLE.fullmatch(sent) else f"{getrandbits(128):032x}"


def path_without_token(request: web.BaseRequest) -> str:
    """Return the path for a log line, without the token of a hook, which is a secret."""
    return TOKEN_OF_HOOK.sub(r"\1{token}", request.path)


def name_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the id of the current request to a log line; a structlog processor."""
    current = CURRENT_ID.get(None)
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


def _answered(route: web.AbstractRoute | None, status: int) -> Answered:
    if route is None or route.resource is None:
        return Answered("*", "*", status)
    return Answered(route.method, route.resource.canonical, status)
