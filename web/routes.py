"""Routes: declared above their handlers; the router and the API document are built from them."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Set
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, ClassVar, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from storage.postgres.asker import ASKER, Asker
from supervisors.client_values import OFF_LOOP_BYTES
from web.access.auth import (
    CALLER,
    ORGANIZATION_HEADER,
    Caller,
    RunAccess,
    admit_address,
    admit_caller,
    admit_operator,
    authenticate_operator,
    named_organization,
)
from web.app_keys import ROOM
from web.idempotency import HEADER as IDEMPOTENCY_HEADER
from web.idempotency import CallerHandler, answered_once
from web.json import JSON_TYPE, json_response
from web.request.client_address import address_of
from web.request.parsing import (
    BODY_LIMIT,
    EXPECTED,
    NO_FIELDS,
    Body,
    BodyLimit,
    Expected,
    is_multipart,
    note_fields,
)
from web.request.unknown_names import PREFER_HEADER, note_unknown_names, shown_fields
from web.request_room import PLACE, READ_UNITS, WRITE_UNITS
from web.settings import LimitSettings

EVENT_STREAM = "text/event-stream"
LAST_EVENT_ID = "Last-Event-ID"  # the header by which a client resumes such a stream
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
    handler: Callable[..., Awaitable[object]]  # returns its answer, or the whole response
    _: KW_ONLY
    status: int = 200  # of a success
    answer: Any = None  # the type of the response body, None without one
    stream: Any = None  # the type of the JSON in each event, if the answer may also be a stream
    body: Body | None = None
    query: Body | None = None
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

    def body_limit(self, limits: LimitSettings) -> BodyLimit:
        """Return the maximum size of a body that is no form with files."""
        most = limits.body_bytes if self.body_bytes is None else self.body_bytes
        return BodyLimit(most, most)

    @abstractmethod
    async def admit(self, request: web.Request) -> tuple[Caller, ...]:
        """Return who calls, if the handler receives the caller. Raise an error to refuse the request."""

    def endpoint(self, limits: LimitSettings) -> Handler:
        """Return the function that answers a request of this route.

        It admits the request, looks for names that the route does not know, and calls the handler.
        """
        is_idempotent = self.idempotent
        is_read, query, body = self.method == "GET", self.query or NO_FIELDS, self.body or NO_FIELDS
        handler, handler_with_key = self.handler, answered_once(self.handler)
        shown = shown_fields(self.answer, body.known) if self.body else frozenset()
        expected = Expected(query, body, self.partial, self.max_items, shown, self.status)
        without_effect = () if self.idempotent else (IDEMPOTENCY_HEADER,)
        body_limit = self.body_limit(limits)
        form_limit = BodyLimit(limits.body_bytes + limits.attachment_bytes, limits.body_bytes)

        async def respond(request: web.Request) -> web.StreamResponse:
            caller = await self.admit(request)
            try:
                request[EXPECTED] = expected
                headers = request.headers
                ignored = [name for name in without_effect if name in headers]
                if request.rel_url.raw_query_string or PREFER_HEADER in headers or ignored:
                    note_unknown_names(request, query.known.names, *ignored)
                if not is_read:
                    identity = caller[0].identity if caller else ""
                    ASKER.set(Asker(identity, partial(address_of, request)))
                    may_have_files = self.takes_files and is_multipart(request)
                    request[BODY_LIMIT] = form_limit if may_have_files else body_limit
                    if self.body is None and request.body_exists:
                        await note_fields(request)
                has_key = is_idempotent and IDEMPOTENCY_HEADER in headers
                answer = await (handler_with_key if has_key else handler)(request, *caller)
                if isinstance(answer, web.StreamResponse):
                    return answer
                return json_response(answer, self.status) if self.answer else web.Response(status=self.status)
            finally:
                ASKER.set(None)  # the next request of the connection is handled in the same context
                place = request.get(PLACE)
                if place is not None:
                    place.leave()

        return respond


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

    def body_limit(self, limits: LimitSettings) -> BodyLimit:
        most = min(self.body_bytes, limits.body_bytes)
        return BodyLimit(most, most)


@dataclass(frozen=True, slots=True)
class CallerRoute(Route):
    """A route for authenticated callers; its handler receives the caller."""

    access = Access.CALLERS
    handler: CallerHandler
    takes_ticket: bool = False  # a stream ticket in the query replaces the credential
    takes_link: bool = False  # so does the token of a link to the approval in the path

    async def admit(self, request: web.Request) -> tuple[Caller]:
        caller = await admit_caller(request, takes_ticket=self.takes_ticket, takes_link=self.takes_link)
        if caller.run is not None:
            caller.run.require_route(self.run_access)
        is_read = self.method == "GET"  # of all organizations, whatever the header names
        named = named_organization(request, caller) if ORGANIZATION_HEADER in request.headers else None
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
AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Awaitable[object]])


class Routes(list[Route]):
    """The routes of a module, each declared above its handler:

        @routes.patch("/api/defaults/contacts/{id}/", body=ContactBody)
        async def change_contact(request: web.Request, caller: Caller) -> ContactResponse:

    The name and the docstring of the handler describe it in the API document, and so does the type of the
    answer that it returns, to be written as JSON. A handler that returns a whole response has the option
    `answer` instead. The options are the fields of `Route` and of the class for the `access`, which an option
    can change for one route; `body` and `query` are given as classes.
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

    def put(self, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        return self._route("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        return self._route("DELETE", path, status=204, **options)

    def _route(self, method: str, path: str, **options: Any) -> Callable[[AnyHandler], AnyHandler]:
        route = ROUTES_FOR[options.pop("access", self._access)]
        options |= {name: _schema(options[name]) for name in options.keys() & {"body", "query"}}

        def add(handler: AnyHandler) -> AnyHandler:
            answer = handler.__annotations__["return"]
            is_whole = isinstance(answer, type) and issubclass(answer, web.StreamResponse)
            self.append(route(method, path, handler, **({} if is_whole else {"answer": answer}), **options))
            return handler

        return add


@cache
def _schema(kind: type[Body]) -> Body:
    """Return the schema of a class, the same for all routes that name it."""
    return kind()
