"""Routes found in a dictionary: they are those that the framework finds."""

import re
from uuid import uuid4

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from web.app import ROUTES
from web.route_table import RouteTable


async def answer(request: web.Request) -> web.Response:
    return web.Response()


@pytest.fixture(scope="module")
def router() -> web.UrlDispatcher:
    app = web.Application()
    for route in ROUTES:
        app.router.add_route(route.method, route.path, answer)
    for path in dict.fromkeys(route.path for route in ROUTES):
        app.router.add_route("*", path, answer)
    return app.router


def fill(path: str, value: str) -> str:
    return re.sub(r"\{\w+\}", lambda _: value, path)


async def test_routes_found_are_those_of_the_framework(router: web.UrlDispatcher) -> None:
    table = RouteTable(router)
    for route in ROUTES:
        for value in (str(uuid4()), str(uuid4()).upper()):
            path = fill(route.path, value)
            found = table.find(route.method, path)
            expected = await router.resolve(make_mocked_request(route.method, path))
            assert found is not None, path
            assert (found.route, dict(found)) == (expected.route, dict(expected)), path


async def test_other_paths_are_left_to_the_framework(router: web.UrlDispatcher) -> None:
    table, agent_id = RouteTable(router), str(uuid4())
    for path in (
        "/nowhere/",
        "/api/cloud/agents",
        f"/api/cloud/agents/{agent_id}",
        f"/api/cloud/agents/{agent_id}x/",
        f"/api/cloud/agents/{agent_id[:-1]}/",
        f"/api/cloud/agents/{{{agent_id}}}/",
        f"/api/cloud/agents/{agent_id.replace('-', '%2D')}/",
        f"/api/cloud//agents/{agent_id}/",
        f"//api/cloud/agents/{agent_id}/",
        f"/api/cloud/agents/{agent_id}//",
        "/api/cloud/agents/{id}/",
        "/api/cloud/%61gents/",
        "",
        "*",
    ):
        assert table.find("GET", path) is None, path
    assert table.find("TRACE", "/api/cloud/agents/") is None
