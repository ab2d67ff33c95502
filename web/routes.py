"""One line of the route table: what answers where, to whom, with what. The API document is made of these."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from marshmallow import Schema

from web.access.auth import RunAccess, authenticate, authenticate_operator
from web.idempotency import CallerHandler, answered_once
from web.json import JSON_TYPE


class Access(StrEnum):
    """Whom a route answers."""

    ANYONE = "anyone"
    CALLERS = "callers"
    OPERATORS = "operators"


@dataclass(frozen=True, slots=True)
class Route:
    """`body` and `query` are the schemas that check them; `answer` is the type of what is shown, if anything.

    `partial`: nothing in the body is required. `refusals`: statuses beyond those that follow from the rest.
    `run_access`: when it is open to a run's token; who opens it checks that the run keeps to what is its own.
    `by_header`: X-Organization says in which of the caller's organizations something is made.
    `refused`: the type of what a 400 or 404 can hold as well as the usual.
    `body_bytes`: the largest body, where that is not what the settings say.
    `max_items`: a JSON list of up to so many bodies is taken as well.
    `media_types`: those that the answer can have.
    `idempotent`: it takes an Idempotency-Key (refusals 409 and 422), by the rules of `web.idempotency`.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    summary: str
    status: int
    answer: Any
    body: Schema | None
    query: Schema | None
    partial: bool
    refusals: frozenset[int]
    run_access: RunAccess = RunAccess.NEVER
    idempotent: bool = False
    body_bytes: int | None = None
    max_items: int = 0
    refused: Any = None
    by_header: bool = False
    media_types: tuple[str, ...] = (JSON_TYPE,)


def for_anyone(
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    status: int = 200,
    answer: Any = None,
    body: Schema | None = None,
    query: Schema | None = None,
    refusals: frozenset[int] = frozenset(),
    media_types: tuple[str, ...] = (JSON_TYPE,),
) -> Route:
    """A route that needs no credential."""
    return Route(
        method,
        path,
        handler,
        Access.ANYONE,
        summary,
        status,
        answer,
        body,
        query,
        partial=False,
        refusals=refusals,
        media_types=media_types,
    )


def for_callers(
    method: str,
    path: str,
    handler: CallerHandler,
    summary: str,
    *,
    status: int = 200,
    answer: Any = None,
    body: Schema | None = None,
    query: Schema | None = None,
    partial: bool = False,
    refusals: frozenset[int] = frozenset(),
    run_access: RunAccess = RunAccess.NEVER,
    idempotent: bool = False,
    body_bytes: int | None = None,
    max_items: int = 0,
    refused: Any = None,
    by_header: bool = False,
) -> Route:
    """The handler is given who calls; nobody else gets as far as it."""
    if idempotent:
        handler = answered_once(handler)

    @wraps(handler)
    async def authenticated(request: web.Request) -> web.StreamResponse:
        caller = await authenticate(request)
        caller.require_route(run_access)
        if body_bytes is not None:
            request = request.clone(client_max_size=body_bytes)
        return await handler(request, caller)

    return Route(
        method,
        path,
        authenticated,
        Access.CALLERS,
        summary,
        status,
        answer,
        body,
        query,
        partial,
        refusals,
        run_access,
        idempotent,
        body_bytes,
        max_items,
        refused,
        by_header,
    )


def for_operators(
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    answer: Any = None,
    query: Schema | None = None,
    media_types: tuple[str, ...] = (JSON_TYPE,),
    authenticate: Callable[[web.Request], None] = authenticate_operator,
) -> Route:
    """A route for the operator's token alone, if `authenticate` says nothing else."""

    @wraps(handler)
    async def authenticated(request: web.Request) -> web.StreamResponse:
        authenticate(request)
        return await handler(request)

    return Route(
        method,
        path,
        authenticated,
        Access.OPERATORS,
        summary,
        status=200,
        answer=answer,
        body=None,
        query=query,
        partial=False,
        refusals=frozenset(),
        media_types=media_types,
    )
