"""The route of a request, found in a dictionary by its method and the shape of its path.

The framework compares a path with the pattern of each resource under the same prefix in turn. It still
decides about every path that the table does not know: those with other variables than ids, with escapes, of
another method, or of no route at all.
"""

import re
from typing import NamedTuple

from aiohttp import hdrs, web
from aiohttp.web import Resource

# A whole segment. The slash behind it stays, because the next segment begins with it.
ID_SEGMENT = re.compile(r"/([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?=/)")
VARIABLE_SEGMENT = re.compile(r"/\{(\w+)\}(?=/)")


class _Entry(NamedTuple):
    route: web.AbstractRoute
    variables: list[str]  # the names of the ids in the path


class RouteTable:
    """The routes of a router, by method and by the parts of the path around its ids."""

    def __init__(self, router: web.UrlDispatcher) -> None:
        self._entries: dict[tuple[str, ...], _Entry] = {}
        for route in router.routes():
            if route.method == hdrs.METH_ANY or not isinstance(route.resource, Resource):
                continue
            parts = VARIABLE_SEGMENT.split(route.resource.canonical)
            if "{" not in "".join(parts[::2]):
                self._entries.setdefault((route.method, *parts[::2]), _Entry(route, parts[1::2]))

    def find(self, method: str, path: str) -> web.UrlMappingMatchInfo | None:
        """Return the route of an undecoded path; None if the router must decide."""
        parts = ID_SEGMENT.split(path)
        entry = self._entries.get((method, *parts[::2]))
        if entry is None:
            return None
        return web.UrlMappingMatchInfo(dict(zip(entry.variables, parts[1::2], strict=True)), entry.route)
