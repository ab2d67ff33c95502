"""What all resources have in common: documented answers, a life from creation to deletion, and a list."""

from dataclasses import replace
from typing import Any, get_origin

import jsonschema_rs
import pytest

from tests.contract.answers import send
from tests.contract.requests_by_route import for_each_route, key_of, row_of
from tests.contract.tenants import Request, Tenant, make
from tests.web.conftest import Answer, Api, api_document
from web.app import ROUTES
from web.paging import PageQuery
from web.routes import Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

BY_KEY = {key_of(route): route for route in ROUTES}
DERIVED = {"updated_at", "version", "cleared_at", "template_name", "parent_name"}  # from other fields


def _without_other_properties(part: Any) -> Any:
    """Return the part of the API document, whose objects have no properties but the described ones."""
    if isinstance(part, list):
        return [_without_other_properties(item) for item in part]
    if not isinstance(part, dict):
        return part
    closed = {name: _without_other_properties(value) for name, value in part.items()}
    return {**closed, "additionalProperties": False} if isinstance(part.get("properties"), dict) else closed


DOCUMENT = _without_other_properties(api_document())


def violations(route: Route, answer: Answer) -> list[str]:
    """Return how the answer differs from the description of its success."""
    success = DOCUMENT["paths"][route.path][route.method.lower()]["responses"][str(route.status)]
    described = success.get("content", {}).get("application/json")
    if described is None:
        return []
    whole = {**described["schema"], "components": DOCUMENT["components"]}
    validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(answer.body)]


def member_route(route: Route, method: str) -> Route | None:
    """Return the route for one resource of the collection that the route creates or lists."""
    name = "{secret_id}" if route.path.startswith("/api/templates/{id}") else "{id}"
    return BY_KEY.get(f"{method} {route.path}{name}/")


def client_of(ours: Tenant, request: Request) -> Api:
    return ours.service.nobody.with_authorization(request.authorization)


def common(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Return the values whose names the others have, too: some answers show more than others."""
    return {name: value for name, value in values.items() if name in others}


CREATING = [route for route in ROUTES if route.idempotent and member_route(route, "GET")]
LISTS = [
    route
    for route in ROUTES
    if get_origin(route.answer) is list
    and isinstance(route.query, PageQuery)
    and f"POST {route.path}" in BY_KEY
    and row_of(BY_KEY[f"POST {route.path}"]).by is None  # the same caller creates and lists
]


@for_each_route(ROUTES)
async def test_valid_request_gets_the_documented_answer(ours: Tenant, route: Route) -> None:
    answer = await send(ours.service, await make(ours, route))
    assert answer.status == route.status
    assert violations(route, answer) == []
    assert not answer.headers.keys() & {"X-Ignored", "Preference-Applied"}


@for_each_route(CREATING)
async def test_resource_is_read_as_it_was_written_until_its_deletion(ours: Tenant, route: Route) -> None:
    request = await make(ours, route)
    client = client_of(ours, request)
    created = (await send(ours.service, request)).body
    path = f"{request.path}{created['id']}/"
    shown = (await client.get(path)).body
    assert common(created, shown) == common(shown, created)
    if patch := member_route(route, "PATCH"):
        changes = (await make(ours, patch)).body
        changed = await client.patch(path, changes)
        assert changed.status == 200, changed
        assert (await client.get(path)).body == changed.body
        others = {name: value for name, value in created.items() if name not in {*(changes or {}), *DERIVED}}
        assert common(changed.body, others) == common(others, changed.body)
    if member_route(route, "DELETE"):
        answer = await client.delete(path)
        assert (answer.status, answer.body) == (204, "")
        assert [(await client.request(method, path)).status for method in ("GET", "DELETE")] == [404] * 2


@for_each_route(LISTS)
async def test_list_is_newest_first_and_paged(ours: Tenant, route: Route) -> None:
    creating = BY_KEY[f"POST {route.path}"]
    request = await make(ours, creating)
    client = client_of(ours, request)
    first = await send(ours.service, request)
    second = await send(ours.service, replace(await make(ours, creating), path=request.path))
    newest = [second.body["id"], first.body["id"]]
    listed = (await client.get(request.path)).body
    assert [item["id"] for item in listed if item["id"] in newest] == newest
    assert listed == sorted(listed, key=lambda item: (item["created_at"], item["id"]), reverse=True)
    page = await client.get(f"{request.path}?limit=1")
    assert page.body == listed[:1]
    assert f"after={listed[0]['id']}" in page.headers["Link"]
    assert (await client.get(f"{request.path}?after={listed[0]['id']}&limit=1")).body == listed[1:2]
    assert (await client.get(f"{request.path}?offset=1&limit=1")).body == listed[1:2]
