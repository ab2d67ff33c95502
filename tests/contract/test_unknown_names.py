"""X-Ignored and `Prefer: handling=strict`, tested on every route."""

import json
from dataclasses import replace
from itertools import cycle
from typing import Any
from urllib.parse import urlencode

import pytest
from marshmallow import INCLUDE

from tests.contract.answers import send, unchanged
from tests.contract.media_types import as_json, as_multipart, as_urlencoded
from tests.contract.requests_by_route import for_each_route
from tests.contract.tenants import Request, Tenant, make, make_refused
from tests.web.conftest import Answer
from web.app import ROUTES
from web.routes import Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "Idempotency-Key"
IGNORED = "X-Ignored"
APPLIED = "Preference-Applied"
STRICT = {"Prefer": "handling=strict"}
UNKNOWN = {"no_such_field": {"a": [1]}, "größe, x\n": 1}
QUERY = "no_such_parameter=1"
media_types = cycle((as_json, as_urlencoded, as_multipart))  # one for each route

every_route = for_each_route(ROUTES)
reading = for_each_route([route for route in ROUTES if route.method == "GET"])
naming_fields = [
    route for route in ROUTES if route.method != "GET" and not (route.body and route.body.unknown == INCLUDE)
]


async def sent(tenant: Tenant, request: Request, query: str = "", **options: Any) -> Answer:
    """Send the request with this query."""
    request = replace(request, path=f"{request.path}?{query}" if query else request.path)
    return await send(tenant.service, request, **options)


def ignored(answer: Answer) -> list[str]:
    return [name for name in answer.headers.get(IGNORED, "").split(", ") if name]


@every_route
async def test_answer_names_unknown_parameter_and_useless_key(ours: Tenant, route: Route) -> None:
    request = await make(ours, route)
    answer = await sent(ours, request, QUERY, headers={KEY: f"unknown names of {request.path}"})
    assert answer.status == route.status
    assert ignored(answer) == ["no_such_parameter", *([] if route.idempotent else [KEY])]
    if route.idempotent:
        again = await sent(ours, request, QUERY, headers={KEY: f"unknown names of {request.path}"})
        assert again.headers["Idempotency-Replayed"] == "true"
        assert ignored(again) == ["no_such_parameter"]


@for_each_route(naming_fields)
async def test_answer_names_unknown_fields_in_each_media_type(ours: Tenant, route: Route) -> None:
    request = (await make(ours, route)).with_values(no_such_field="x", no_such_list="[1]")
    answer = await sent(ours, request, QUERY, **next(media_types)(request))
    assert answer.status == route.status, answer
    assert ignored(answer) == ["no_such_field", "no_such_list", "no_such_parameter"]


@for_each_route([route for route in naming_fields if route.body])
async def test_form_names_unknown_fields(ours: Tenant, route: Route) -> None:
    request = await make_refused(ours, route)
    for name, value in UNKNOWN.items():
        raw = urlencode({name: json.dumps(value)}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", **STRICT}
        answer = await sent(ours, request, data=raw, headers=headers)
        assert answer.status == 400
        assert answer.body[name] == ["Unknown field."]


async def test_refusal_names_what_it_ignored(ours: Tenant) -> None:
    agent = await ours.key.create_agent()
    body = {"agent": agent["id"], "titel": "Hello"}
    answer = await ours.key.post("/api/defaults/notifications/?colour=1", body)
    assert (answer.status, answer.body) == (400, {"title": ["This field is required."]})
    assert ignored(answer) == ["titel", "colour"]
    answer = await ours.key.post("/api/defaults/notifications/", body, headers=STRICT)
    assert answer.status == 400
    assert not ignored(answer), "refused, not ignored"


async def test_refusal_of_public_route_names_what_it_ignored(ours: Tenant) -> None:
    body = {"email": "ada@example.org", "pasword": "secret-enough"}
    answer = await ours.key.post("/api/organizations/auth/login/", body)
    assert (answer.status, ignored(answer)) == (400, ["pasword"])


@every_route
async def test_strict_request_is_accepted_and_says_so(ours: Tenant, route: Route) -> None:
    answer = await sent(ours, await make(ours, route), headers=STRICT)
    assert answer.status == route.status, answer
    assert answer.headers[APPLIED] == "handling=strict"
    assert IGNORED not in answer.headers


async def test_tool_call_that_fails_is_not_called_strict(ours: Tenant) -> None:
    agent = await ours.key.create_agent()
    answer = await ours.key.post(f"/api/cloud/agents/{agent['id']}/tools/no_such_tool/", {}, headers=STRICT)
    assert answer.status == 404
    assert APPLIED not in answer.headers


async def test_strict_request_with_unknown_parameter_has_no_effect(ours: Tenant) -> None:
    requests = [await make_refused(ours, route) for route in ROUTES]
    refusal = (400, {"no_such_parameter": ["Unknown query parameter."]})
    async with unchanged(ours.service.storage.pool):
        for request in requests:
            answer = await sent(ours, request, QUERY, headers=STRICT)
            assert (answer.status, answer.body) == refusal, request


async def test_strict_request_with_unknown_field_has_no_effect(ours: Tenant) -> None:
    requests = [(await make_refused(ours, route)).with_values(**UNKNOWN) for route in naming_fields]
    refusal = (400, {name: ["Unknown field."] for name in UNKNOWN})
    async with unchanged(ours.service.storage.pool):
        for request in requests:
            answer = await sent(ours, request, headers=STRICT)
            assert (answer.status, answer.body) == refusal, request


@for_each_route([route for route in ROUTES if route.body is None and route.method != "GET"])
async def test_unreadable_body_of_route_without_one_is_left_alone(ours: Tenant, route: Route) -> None:
    for data, content_type in ((b"{", "application/json"), (b"x", "text/plain"), (b"[" * 40_000, "")):
        request = await make(ours, route)
        answer = await sent(ours, request, data=data, headers={"Content-Type": content_type})
        assert answer.status == route.status
        assert not ignored(answer)


@reading
async def test_body_of_get_is_not_read(ours: Tenant, route: Route) -> None:
    answer = await sent(ours, await make(ours, route), json=UNKNOWN)
    assert answer.status == route.status
    assert not ignored(answer)


async def test_resource_can_be_sent_back_as_it_was_read(ours: Tenant) -> None:
    for path, body in (
        ("/api/templates/", {"name": "Clerk"}),
        ("/api/defaults/contacts/", {"name": "Ada"}),
        ("/api/toolbox/adapters/", {"name": "Weather"}),
    ):
        created = await ours.key.create(path, **body)
        answer = await ours.key.request("PATCH", f"{path}{created['id']}/", json=created, headers=STRICT)
        assert answer.status == 200, answer


async def test_streamed_list_names_what_it_ignored(ours: Tenant) -> None:
    for _ in range(4):
        await ours.key.create("/api/templates/", name="Clerk", system_prompt="x" * 100_000)
    answer = await ours.key.request("GET", "/api/templates/?offst=1", headers={KEY: "x"})
    assert "Content-Length" not in answer.headers, "the list is streamed"
    assert ignored(answer) == ["offst", KEY]
    strict = await ours.key.request("GET", "/api/templates/", headers=STRICT)
    assert strict.headers[APPLIED] == "handling=strict"
