"""Routes: their defaults, and what stands around their handlers."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from web import app_keys
from web.access.auth import Caller
from web.credentials.rate_limits import RateLimits
from web.errors import NotAuthenticated
from web.routes import Access, CallerRoute, OperatorRoute, PublicRoute
from web.settings import LimitSettings

ANSWER = web.Response(text="done")


def a_request() -> web.Request:
    app = web.Application()
    app[app_keys.RATE_LIMITS] = RateLimits(LimitSettings(anonymous_requests_per_minute=0))
    return make_mocked_request("GET", "/", app=app)


async def answer(request: web.Request) -> web.Response:
    return ANSWER


async def answer_caller(request: web.Request, caller: Caller) -> web.Response:
    return ANSWER


def refuse(request: web.Request) -> None:
    raise NotAuthenticated


def test_constructors_name_whom_routes_answer() -> None:
    assert PublicRoute("GET", "/", answer).access is Access.ANYONE
    assert CallerRoute("GET", "/", answer_caller).access is Access.CALLERS
    assert OperatorRoute("GET", "/", answer).access is Access.OPERATORS


async def test_open_route_answers_without_credential() -> None:
    route = PublicRoute("GET", "/", answer)
    assert await route.endpoint()(a_request()) is ANSWER


async def test_caller_route_refuses_missing_credential() -> None:
    route = CallerRoute("GET", "/", answer_caller, idempotent=True)
    with pytest.raises(NotAuthenticated):
        await route.endpoint()(a_request())


async def test_operator_route_asks_its_own_check() -> None:
    open_route = OperatorRoute("GET", "/", answer, authenticate=lambda request: None)
    assert await open_route.endpoint()(a_request()) is ANSWER
    closed = OperatorRoute("GET", "/", answer, authenticate=refuse)
    with pytest.raises(NotAuthenticated):
        await closed.endpoint()(a_request())


def test_only_patch_has_partial_body() -> None:
    partial = {method: PublicRoute(method, "/", answer).partial for method in ("GET", "POST", "PATCH")}
    assert partial == {"GET": False, "POST": False, "PATCH": True}
