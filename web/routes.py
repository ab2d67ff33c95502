"""The rows of the route table, from which the router and the API document are built."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeVar, cast

from aiohttp import web
from aiohttp.typedefs import Handler
from marshmallow import Schema

from web.access.auth import RunAccess, authenticate, authenticate_operator
from web.idempotency import CallerHandler, answered_once
from web.json import JSON_TYPE

AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Awaitable[web.StreamResponse]])


class Access(StrEnum):
    """Whom a route answers."""

    ANYONE = "anyone"
    CALLERS = "callers"
    OPERATORS = "operators"


@dataclass(frozen=True)  # with slots a generic one cannot be built on Python 3.11
class Route(Generic[AnyHandler]):
    """An endpoint of the HTTP interface. Build it with `for_anyone`, `for_callers` or `for_operators`."""

    method: str
    path: str
    handler: AnyHandler
    summary: str
    _: KW_ONLY
    access: Access
    status: int = 200  # of a success
    answer: Any = None  # the type of the response body, None without one
    body: Schema | None = None
    query: Schema | None = None
    partial: bool = False  # nothing in the body is required
    refusals: frozenset[int] = frozenset()  # statuses beyond those that follow from the other fields
    refused: Any = None  # the type of a further body that a 400 or 404 can have
    run_access: RunAccess = RunAccess.NEVER  # the handler checks that a run keeps to its own resources
    idempotent: bool = False  # accepts an Idempotency-Key by the rules of `web.idempotency`
    by_header: bool = False  # X-Organization chooses the organization of a new resource
    body_bytes: int | None = None  # the maximum size of the body, None for that of the settings
    max_items: int = 0  # the maximum length of a JSON list of bodies, 0 if only one body is accepted
    media_types: tuple[str, ...] = (JSON_TYPE,)  # of the response
    authenticate: Callable[[web.Request], None] = authenticate_operator  # for operators only

    def endpoint(self) -> Handler:
        """Return the handler behind authentication, idempotency and the limit of the body."""
        match self.access:
            case Access.ANYONE:
                return cast(Handler, self.handler)
            case Access.OPERATORS:
                return self._for_operators(cast(Handler, self.handler))
            case Access.CALLERS:
                return self._for_callers(cast(CallerHandler, self.handler))

    def _for_operators(self, handler: Handler) -> Handler:
        async def authenticated(request: web.Request) -> web.StreamResponse:
            self.authenticate(request)
            return await handler(request)

        return authenticated

    def _for_callers(self, handler: CallerHandler) -> Handler:
        if self.idempotent:
            handler = answered_once(handler)

        async def authenticated(request: web.Request) -> web.StreamResponse:
            caller = await authenticate(request)
            caller.require_route(self.run_access)
            if self.body_bytes is not None:
                request = request.clone(client_max_size=self.body_bytes)
            return await handler(request, caller)

        return authenticated


for_anyone = partial(Route[Handler], access=Access.ANYONE)
for_callers = partial(Route[CallerHandler], access=Access.CALLERS)
for_operators = partial(Route[Handler], access=Access.OPERATORS)
