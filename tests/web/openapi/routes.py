"""Small routes to describe."""

from typing import TypedDict

from aiohttp import web

from web.access.auth import Caller, RunAccess
from web.fields import Integer, Line
from web.request.parsing import Body
from web.routes import CallerRoute, OperatorRoute, PublicRoute


class ThingBody(Body):
    name = Line(required=True)


class ThingResponse(TypedDict):
    id: int
    name: str


class ThingQuery(Body):
    size = Integer(min_value=1, max_value=5, load_default=None)


async def list_things(request: web.Request) -> web.Response:
    """All of them."""
    return web.Response()


async def create_thing(request: web.Request, caller: Caller) -> web.Response:
    return web.Response()


LIST = PublicRoute("GET", "/api/shop/things/", list_things, answer=list[ThingResponse], query=ThingQuery())
CREATE = CallerRoute(
    "POST",
    "/api/shop/things/{id}/",
    create_thing,
    status=201,
    answer=ThingResponse,
    body=ThingBody(),
    run_access=RunAccess.RUNNING,
    idempotent=True,
    by_header=True,
)
STATUS = OperatorRoute("GET", "/status/", list_things, answer=ThingResponse)
