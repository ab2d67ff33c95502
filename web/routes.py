"""One line of the route table: what answers where, and to whom."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from uuid import UUID

from aiohttp import web
from aiohttp.typedefs import Handler

from web.auth import Caller, authenticate, authenticate_operator
from web.errors import NotFound
from web.fields import parse_uuid

CallerHandler = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]


class Access(StrEnum):
    """Whom a route answers."""

    ANYONE = "anyone"
    CALLERS = "callers"
    OPERATORS = "operators"


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Handler
    access: Access


def for_anyone(method: str, path: str, handler: Handler) -> Route:
    return Route(method, path, handler, Access.ANYONE)


def for_callers(method: str, path: str, handler: CallerHandler) -> Route:
    """The handler is given who calls; nobody else gets as far as it."""

    @wraps(handler)
    async def authenticated(request: web.Request) -> web.StreamResponse:
        return await handler(request, await authenticate(request))

    return Route(method, path, authenticated, Access.CALLERS)


def for_operators(method: str, path: str, handler: Handler) -> Route:
    @wraps(handler)
    async def authenticated(request: web.Request) -> web.StreamResponse:
        authenticate_operator(request)
        return await handler(request)

    return Route(method, path, authenticated, Access.OPERATORS)


def path_id(request: web.Request, name: str = "id") -> UUID:
    """The id in the path; what is no UUID names nothing."""
    parsed = parse_uuid(request.match_info[name])
    if parsed is None:
        raise NotFound
    return parsed
