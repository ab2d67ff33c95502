"""The application: routes, methods and redirects."""

import re

from storage.ids import new_id
from tests.web.conftest import Api, Service
from web.app import ROUTES
from web.routes import Access, Route

AGENTS = "/api/cloud/agents/"
UNAUTHENTICATED = {"detail": "Authentication credentials were not provided."}


def url(route: Route) -> str:
    return re.sub(r"\{\w+\}", lambda _: str(new_id()), route.path)


async def test_every_route_but_public_ones_requires_credential(service: Service) -> None:
    for route in ROUTES:
        answer = await service.nobody.request(route.method, url(route))
        if route.access is Access.ANYONE:
            assert answer.status != 401, route
        else:
            assert (answer.status, answer.body) == (401, UNAUTHENTICATED), route


async def test_unknown_path_is_not_found(api: Api) -> None:
    answer = await api.get("/api/cloud/robots/")
    assert (answer.status, answer.body) == (404, {"detail": "Not found."})


async def test_wrong_method_is_answered_with_allowed_ones(api: Api) -> None:
    answer = await api.request("PUT", AGENTS)
    assert (answer.status, answer.body) == (405, {"detail": 'Method "PUT" not allowed.'})
    assert answer.headers["Allow"] == "GET, HEAD, POST"


async def test_path_that_resembles_id_has_its_own_methods(api: Api) -> None:
    for path, allowed in (
        ("/api/defaults/notifications/clear/", "POST"),
        ("/api/tracing/traces/list/", "GET, HEAD"),
    ):
        answer = await api.patch(path, {})
        assert (answer.status, answer.headers["Allow"]) == (405, allowed)
