"""How many requests were answered, with what status, and how fast; counted as they are answered."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import web
from aiohttp.web_urldispatcher import AbstractRoute

BUCKET_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # upper bounds


class Answered(NamedTuple):
    """Requests answered alike, by their route's pattern; "*" is for what fits none, or has another method."""

    method: str
    route: str
    status: int


class RequestCounts:
    """The answers since the start. Every request comes through `add`: it is as little as will do."""

    def __init__(self) -> None:
        # Of each kind of answer: how many were how fast, by bucket and beyond; last, the sum of seconds.
        self._counts: dict[tuple[AbstractRoute | None, int], list[float]] = {}

    def add(self, request: web.Request, status: int, seconds: float) -> None:
        """Count a request that was answered after so long."""
        route = request.match_info.route
        # What no route takes has a route of its own each time; as keys, these would be without end.
        kind = (route if route.resource is not None else None, status)
        counts = self._counts.get(kind)
        if counts is None:
            counts = self._counts[kind] = [0] * (len(BUCKET_SECONDS) + 1) + [0.0]
        counts[bisect_left(BUCKET_SECONDS, seconds)] += 1
        counts[-1] += seconds

    def snapshot(self) -> Mapping[Answered, list[float]]:
        """Of each kind of answer: how many were how fast, by bucket and beyond; last, the sum of seconds."""
        return {_answered(route, status): list(counts) for (route, status), counts in self._counts.items()}


def _answered(route: AbstractRoute | None, status: int) -> Answered:
    if route is None or route.resource is None:
        return Answered("*", "*", status)
    return Answered(route.method, route.resource.canonical, status)
