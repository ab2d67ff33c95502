"""Routes: declared above their handlers; the router and the API document are built from them."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Set
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from marshmallow import Schema

from supervisors.client_values import OFF_LOOP_BYTES
from web.access.admission import admit_address, admit_caller, admit_operator
from web.access.auth import CALLER, Caller, RunAccess, authenticate_operator, named_organization
from web.app_keys import ROOM, SETTINGS
from web.idempotency import HEADER as IDEMPOTENCY_HEADER
from web.idempotency import CallerHandler, answered_once
from web.json import JSON_TYPE
from web.request.body import FILE_BYTES, MAX_BYTES, is_multipart
from web.request.parsing import note_fields
from web.request.unknown_names import UNKNOWN_NAMES, KnownNames, UnknownNames
from web.request_room import PLACE, READ_UNITS, WRITE_UNITS

PUBLIC_BODY_BYTES = OFF_LOOP_BYTES  # anybody can send such a body; a longer one would need room


class Access(StrEnum):
    """Whom a route answers."""

    ANYONE = "anyone"
    CALLERS = "callers"
    OPERATORS = "operators"


@dataclass(frozen=True, slots=True)
class Route(ABC):
    """An endpoint of the HTTP interface: where it is, what it accepts, and what it answers."""

    access: ClassVar[Access]

    method: str
    path: str
    handler: Callable[..., Awaitable[web.StreamResponse]]
    _: KW_ONLY
    status: int = 200  # of a success
    answer: Any = None  # the type of the response body, None without one
    stream: Any = None  # the type of the JSON in each event, if the answer may also be a stream
    body: Schema | None = None
    query: Schema | None = None
    refusals: Set[int] = frozenset()  # statuses beyond those that follow from the other fields
    refused: Any = None  # the type of a further body that a 400 or 404 can have
    run_access: RunAccess = RunAccess.NEVER  # the handler checks that a run keeps to its own resources
    idempotent: bool = False  # accepts an Idempotency-Key by the rules of `web.idempotency`
    by_header: bool = False  # X-Organization chooses the organization; elsewhere it is checked only
    body_bytes: int | None = None  # the maximum size of the body, None for that of the settings
    takes_files: bool = False  # in multipart forms, which may be longer by limits.attachment_bytes
    max_items: int = 0  # the maximum length of a JSON list of bodies, 0 if only one body is accepted
    media_types: tuple[str, ...] = (JSON_TYPE,)  # of the response
    user_token: bool = False  # of a public route: a user's token replaces the password in the body
    is_rate_limited: bool = True  # for an address; a caller has the same limit on all routes

    @property
    def partial(self) -> bool:
        """Return whether nothing in the body is required: a PATCH changes only what its body contains."""
        return self.method == "PATCH"

    def known_names(self) -> KnownNames:
        """Return the names that requests may contain; all others are named in the answer."""
        ignored_headers = () if self.idempotent else (IDEMPOTENCY_HEADER,)
        return KnownNames.of(self.query, self.body, self.answer, *ignored_headers)

    def limit_body(self, request: web.Request) -> None:
        """Note the maximum size of the body, if this route has one of its own."""
        if self.takes_files and is_multipart(request):
            request[FILE_BYTES] = request.app[SETTINGS].limits.attachment_bytes
        elif self.body_bytes is not None:
            request[MAX_BYTES] = self.body_bytes

    @abstractmethod
    async def admit(self, request: web.Request) -> tuple[Caller, ...]:
        """Return who calls, if the handler receives the caller. Raise an error to refuse the request."""

    def endpoint(self) -> Handler:
        """Return the function that answers a request of this route.

        It admits the request, looks for names that the route does not know, and calls the handler.
        """
        known = self.known_names()
        handler = answered_once(self.handler) if self.idempotent else self.handler
        ignores_body = self.body is None and self.method != "GET"

        async def answer(request: web.Request) -> web.StreamResponse:
            caller = await self.admit(request)
            try:
                request[UNKNOWN_NAMES] = UnknownNames(request, known)
                if self.body is not None:
                    self.limit_body(request)
                if ignores_body and request.body_exists:
                    await note_fields(request)
                return await handler(request, *caller)
            finally:
                if PLACE in request:
                    request[PLACE].leave()

        return answer


@dataclass(frozen=True, slots=True)
class PublicRoute(Route):
    """A route that needs no credential."""

    access = Access.ANYONE
    handler: Handler
    body_bytes: int = PUBLIC_BODY_BYTES

    async def admit(self, request: web.Request) -> tuple[()]:
        if self.is_rate_limited:
            admit_address(request)
        return ()

    def limit_body(self, request: web.Request) -> None:
        request[MAX_BYTES] = min(self.body_bytes, request.app[SETTINGS].limits.body_bytes)


@dataclass(frozen=True, slots=True)
class CallerRoute(Route):
    """A route for authenticated callers; its handler receives the caller."""

    access = Access.CALLERS
    handler: CallerHandler
    takes_ticket: bool = False  # a stream ticket in the query replaces the credential

    async def admit(self, request: web.Request) -> tuple[Caller]:
        caller = await admit_caller(request, takes_ticket=self.takes_ticket)
        caller.require_route(self.run_access)
        named = named_organization(request, caller)
        is_read = self.method == "GET"  # of all organizations, whatever the header names
        if named is not None and named in caller.roles and not is_read:
            caller = caller.confined_to(named)
        request[CALLER] = caller
        units = READ_UNITS if is_read else WRITE_UNITS
        request[PLACE] = request.app[ROOM].enter(caller.accountable, units)
        return (caller,)


@dataclass(frozen=True, slots=True)
class OperatorRoute(Route):
    """A route that `authenticate` guards, by default with the operator's token."""

    access = Access.OPERATORS
    handler: Handler
    authenticate: Callable[[web.Request], None] = authenticate_operator

    async def admit(self, request: web.Request) -> tuple[()]:
        if self.is_rate_limited:
            admit_operator(request, self.authenticate)
        else:
            self.authenticate(request)
        return ()


ROUTES_FOR: dict[Access, type[Route]] = {
    Access.ANYONE: PublicRoute,
    Access.CALLERS: CallerRoute,
    Access.OPERATORS: OperatorRoute,
}
AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Awaitable[web.StreamResponse]])


class Routes(list[Route]):
    """The routes of a module, each declared above its handler:

        @routes.get("/api/defaults/contacts/{id}/", answer=ContactResponse)
        async def get_contact(request: web.Request, caller: Caller) -> web.Response:

    The name and the docstring of the handler describe it in the API document. The options are the fields of
    `Route` and of the class for the `access`, which an option can change for one route.
    """

    def __init__(self, access: Access = Access.CALLERS) -> None:
        super().__init__()
        self._access = access

    def get(self, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        return self._route("GET", path, **options)

    def post(self, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        return self._route("POST", path, **options)

    def create(self, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        """Declare a POST that creates something: once, if it is repeated with an Idempotency-Key."""
        return self._route("POST", path, status=201, idempotent=True, **options)

    def patch(self, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        return self._route("PATCH", path, **options)

    def delete(self, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        return self._route("DELETE", path, status=204, **options)

    def _route(self, method: str, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        route = ROUTES_FOR[options.pop("access", self._access)]

        def add(handler: AnyHandler) -> AnyHandler:
            self.append(route(method, path, handler, **options))
            return handler

        return add
