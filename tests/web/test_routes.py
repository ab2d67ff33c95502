"""Routes: their defaults, and what stands around their handlers."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from web.access.auth import Caller
from web.errors import NotAuthenticated
from web.routes import Access, for_anyone, for_callers, for_operators

ANSWER = web.Response(text="done")


async def answer(request: web.Request) -> web.Response:
    return ANSWER


async def answer_caller(request: web.Request, caller: Caller) -> web.Response:
    return ANSWER


def refuse(request: web.Request) -> None:
    raise NotAuthenticated


def test_constructors_name_whom_routes_answer() -> None:
    assert for_anyone("GET", "/", answer, "Read").access is Access.ANYONE
    assert for_callers("GET", "/", answer_caller, "Read").access is Access.CALLERS
    assert for_operators("GET", "/", answer, "Read").access is Access.OPERATORS


async def test_open_route_answers_without_credential() -> None:
    route = for_anyone("GET", "/", answer, "Read")
    assert await route.endpoint()(make_mocked_request("GET", "/")) is ANSWER


async def test_caller_route_refuses_missing_credential() -> None:
    route = for_callers("GET", "/", answer_caller, "Read", idempotent=True)
    with pytest.raises(NotAuthenticated):
        await route.endpoint()(make_mocked_request("GET", "/"))


async def test_operator_route_asks_its_own_check() -> None:
    open_route = for_operators("GET", "/", answer, "Read", authenticate=lambda request: None)
    assert await open_route.endpoint()(make_mocked_request("GET", "/")) is ANSWER
    closed = for_operators("GET", "/", answer, "Read", authenticate=refuse)
    with pytest.raises(NotAuthenticated):
        await closed.endpoint()(make_mocked_request("GET", "/"))
