"""The common rules of the API (bodies, ids, methods, headers), tested on every route."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle, zip_longest
from typing import Any, get_type_hints
from urllib.parse import urlencode

import pytest
from marshmallow import INCLUDE

from storage.ids import new_id
from tests.contract.answers import normalized, send, unchanged
from tests.contract.hostile import (
    HOSTILE_VALUES,
    NEVER_IN_A_FORM,
    NEVER_JSON,
    OUT_OF_RANGE,
    refused_texts,
    refused_values,
)
from tests.contract.media_types import as_json, as_multipart, as_urlencoded, named_fields
from tests.contract.requests_by_route import for_each_route
from tests.contract.tenants import Request, Tenant, make, make_refused
from tests.web.conftest import Answer
from web.app import ROUTES
from web.fields import Datetime
from web.request.parsing import Body
from web.routes import Access, Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
NOT_FOUND = {"detail": "Not found."}
REQUIRED = ["This field is required."]
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
malformed_ids = cycle(
    (
        "1",
        "x" * 100,
        "0" * 32,
        f"%7B{'0' * 36}%7D",
        "%00",
        "%FF",
        "%ED%A0%80",
        "..;",
        "None",
        "%2F",
    )
)
never_json, never_in_a_form = cycle(NEVER_JSON), cycle(NEVER_IN_A_FORM)

every_route = for_each_route(ROUTES)
WITH_BODY = [route for route in ROUTES if route.body]
WITH_FIELDS = [route for route in WITH_BODY if route.body and route.body.load_fields]
with_body = for_each_route(WITH_BODY)
with_fields = for_each_route(WITH_FIELDS)
with_query = for_each_route([route for route in ROUTES if route.query])
with_ids = for_each_route([route for route in ROUTES if "id}" in route.path])
with_slash = for_each_route([route for route in ROUTES if len(route.path) > 1 and route.path.endswith("/")])
read = for_each_route([route for route in ROUTES if route.method == "GET"])
each_path = for_each_route({route.path: route for route in ROUTES}.values())


def schema_of(route: Route) -> Body:
    assert isinstance(route.body, Body)
    return route.body


def has_free_fields(route: Route) -> bool:
    """Return whether the body may have any fields, which the schema does not know."""
    return schema_of(route).unknown == INCLUDE


def datetime_fields(route: Route) -> list[str]:
    return [name for name, each in named_fields(route.body).items() if isinstance(each, Datetime)]


async def sent(tenant: Tenant, request: Request, **options: Any) -> Answer:
    return await send(tenant.service, request, **options)


async def send_refused(tenant: Tenant, request: Request, data: bytes, content_type: str = JSON) -> Any:
    """Send this body, check that it is refused with 400, and return the messages."""
    answer = await sent(tenant, request, data=data, headers={"Content-Type": content_type})
    assert answer.status == 400, (data[:200], answer)
    return answer.body


@with_body
async def test_body_means_the_same_in_json_and_forms(ours: Tenant, route: Route) -> None:
    answers = []
    for write in (as_json, as_urlencoded, as_multipart):
        request = await make(ours, route)
        answer = await sent(ours, request, **write(request))
        assert answer.status == route.status, answer
        answers.append(normalized(answer.body))
    assert answers[0] == answers[1] == answers[2]


@with_body
async def test_body_in_another_media_type_is_unsupported(ours: Tenant, route: Route) -> None:
    request = await make_refused(ours, route)
    for media_type in ("text/plain", "application/xml", "application/jsonp"):
        answer = await sent(ours, request, data=b"{}", headers={"Content-Type": media_type})
        detail = f'Unsupported media type "{media_type}" in request.'
        assert (answer.status, answer.body) == (415, {"detail": detail})


@with_body
async def test_body_that_contradicts_its_media_type_is_refused(ours: Tenant, route: Route) -> None:
    request = await make_refused(ours, route)
    for content_type, data, kind in (
        (JSON, b"{", "JSON"),
        (JSON, b'{"name": "x"} x', "JSON"),
        (JSON, b"\xff", "JSON"),
        (FORM, b"%ff=x", "Form"),
        ("multipart/form-data", b"x", "Multipart form"),
        ("multipart/form-data; boundary=b", b"--b\r\nx", "Multipart form"),
    ):
        body = await send_refused(ours, request, data, content_type)
        assert list(body) == ["detail"]
        assert body["detail"].startswith(f"{kind} parse error - "), data


@with_body
async def test_body_that_is_no_object_is_refused(ours: Tenant, route: Route) -> None:
    request = await make_refused(ours, route)
    kinds = {b'"x"': "str", b"1": "int", b"null": "NoneType", b"true": "bool"}
    for data, kind in {**kinds, **({} if route.max_items else {b"[]": "list"})}.items():
        message = f"Invalid data. Expected a dictionary, but got {kind}."
        assert await send_refused(ours, request, data) == {"non_field_errors": [message]}


@with_body
async def test_empty_body_is_an_empty_object(ours: Tenant, route: Route) -> None:
    required = {name: REQUIRED for name, each in named_fields(route.body).items() if each.required}
    if route.handler.__name__ == "create_agent":
        required["model"] = REQUIRED  # no template provides one
    if route.handler.__name__ == "decide_approval":
        required["approve"] = REQUIRED  # it is no question
    if route.handler.__name__ == "accept_invite":
        required["password"] = REQUIRED  # the request has no user's token
    empty = {"data": b"", "headers": {"Content-Type": JSON}}
    spellings: tuple[dict[str, Any], ...] = ({"json": {}}, {"data": b""}, empty)
    for options in spellings:
        answer = await sent(ours, await make(ours, route), **options)
        if required and not route.partial:
            assert (answer.status, answer.body) == (400, required)
        elif not has_free_fields(route):
            assert answer.status == route.status


@with_fields
async def test_unknown_and_read_only_fields_are_ignored(ours: Tenant, route: Route) -> None:
    plain = await sent(ours, await make(ours, route))
    ignored = {"no_such_field": {"a": [1]}, **{name: {"a": [1]} for name in read_only(route)}}
    request = await make(ours, route)
    more = await sent(ours, request.with_values(**ignored))
    assert (more.status, normalized(more.body)) == (plain.status, normalized(plain.body))


def read_only(route: Route) -> set[str]:
    """Return the fields of the answer that the body does not have."""
    hints = get_type_hints(route.answer) if isinstance(route.answer, type) else {}
    return hints.keys() - named_fields(route.body).keys()


async def test_fields_refuse_values_of_another_type(ours: Tenant) -> None:
    requests = [await make_refused(ours, route) for route in WITH_FIELDS]
    async with unchanged(ours.service.storage.pool):
        for request in requests:
            await refuse_other_types(ours, request)


async def refuse_other_types(ours: Tenant, request: Request) -> None:
    """Try all fields at once, each with the next of the values that it refuses."""
    known = named_fields(request.route.body)
    for values in zip_longest(*(refused_values(each) for each in known.values())):
        given = {name: value for name, value in zip(known, values, strict=True) if value is not None}
        body = {**(request.body or {}), **{name: value for name, (value, _) in given.items()}}
        messages_by_field = await send_refused(ours, request, json.dumps(body).encode())
        assert messages_by_field == {name: messages for name, (_, messages) in given.items()}, request.route


@for_each_route([route for route in ROUTES if route.body and datetime_fields(route)])
async def test_local_time_beyond_the_calendar_is_refused(ours: Tenant, route: Route) -> None:
    """The agents of the table are west of Greenwich: in UTC their last hours are in the year 10000."""
    request = await make_refused(ours, route)
    for name in datetime_fields(route):
        answer = await sent(ours, request.with_values(**{name: "9999-12-31T23:59:59"}))
        assert (answer.status, answer.body) == (400, {name: [OUT_OF_RANGE]})


async def test_invalid_text_is_refused_in_every_field(ours: Tenant) -> None:
    requests = [await make_refused(ours, route) for route in WITH_BODY]
    async with unchanged(ours.service.storage.pool):
        for request in requests:
            await refuse_invalid_text(ours, request)


async def refuse_invalid_text(ours: Tenant, request: Request) -> None:
    """Send the next of the texts in each field: how a text is read does not depend on the field."""
    for name in named_fields(request.route.body) or (request.body or {}):
        text = with_text(request, name, next(never_json))
        assert (await send_refused(ours, request, text.encode())).keys() <= {"detail", name}
        refusal = await send_refused(ours, request, f"{name}={next(never_in_a_form)}".encode(), FORM)
        assert refusal["detail"].startswith("Form parse error - ")


def with_text(request: Request, name: str, text: str) -> str:
    """Return the body as JSON, with this text in the place of the value of the field."""
    others = json.dumps({**(request.body or {}), name: "HERE"})
    return others.replace('"HERE"', text)


@with_query
async def test_parameter_refuses_values_of_another_type(ours: Tenant, route: Route) -> None:
    request = await make_refused(ours, route)
    known = named_fields(route.query)
    for values in zip_longest(*(refused_texts(each) for each in known.values())):
        given = {name: value for name, value in zip(known, values, strict=True) if value is not None}
        query = urlencode({name: value for name, (value, _) in given.items()})
        answer = await sent(ours, with_query_string(request, query))
        expected = {name: as_json_keys(messages) for name, (_, messages) in given.items()}
        assert (answer.status, answer.body) == (400, expected), query


def with_query_string(request: Request, query: str) -> Request:
    return replace(request, path=f"{request.path}?{query}")


def as_json_keys(messages: Any) -> Any:
    return {str(at): of for at, of in messages.items()} if isinstance(messages, Mapping) else messages


@pytest.mark.slow
@for_each_route([route for route in ROUTES if route.body and has_free_fields(route)])
async def test_tools_survive_hostile_arguments(ours: Tenant, route: Route) -> None:
    """Tools check their own parameters and may accept some of these values, but never fail internally."""
    request = await make(ours, route)
    for tool in (await ours.key.get(request.path.removesuffix("create_notification/"))).body:
        path = request.path.replace("create_notification", tool["name"])
        for name in tool["parameters"]["properties"]:
            for value in HOSTILE_VALUES:
                answer = await sent(ours, replace(request, path=path, body={name: value}))
                assert answer.status in {200, 400}, (tool["name"], name, value)


@with_ids
async def test_unknown_id_is_not_found(ours: Tenant, route: Route) -> None:
    """The id is checked before the body, so a broken body makes no difference."""
    good = await make_refused(ours, route)
    for at, segment in enumerate(route.path.split("/")):
        if not segment.endswith("id}"):
            continue
        for value in (str(new_id()), next(malformed_ids)):
            segments = good.path.split("/")
            segments[at] = value
            request = replace(good, path="/".join(segments))
            broken = {"data": b"[", "headers": {"Content-Type": JSON}} if route.body else {}
            for options in ({}, broken):
                answer = await sent(ours, request, **options)
                assert (answer.status, answer.body) == (404, NOT_FOUND), value


@with_slash
async def test_missing_slash_is_redirected(ours: Tenant, route: Route) -> None:
    request = await make_refused(ours, route)
    client = ours.service.nobody
    answer = await client.request(route.method, f"{request.path[:-1]}?a=%20b&a=1")
    assert (answer.status, answer.headers["Location"]) == (308, f"{request.path}?a=%20b&a=1")


@each_path
async def test_unsupported_method_is_answered_with_the_allowed_ones(ours: Tenant, route: Route) -> None:
    routes = [each for each in ROUTES if each.path == route.path]
    allowed = {each.method for each in routes}
    allowed |= {"HEAD"} if "GET" in allowed else set()
    request = await make_refused(ours, routes[0])
    client = ours.service.nobody.with_authorization(request.authorization)
    for method in METHODS - allowed:
        answer = await client.request(method, request.path)
        body = "" if method == "HEAD" else {"detail": f'Method "{method}" not allowed.'}
        assert (answer.status, answer.body) == (405, body)
        assert answer.headers["Allow"] == ", ".join(sorted(allowed))


@each_path
async def test_allowed_methods_are_hidden_without_a_credential(ours: Tenant, route: Route) -> None:
    routes = [each for each in ROUTES if each.path == route.path]
    is_open = any(each.access is Access.ANYONE for each in routes)
    real = (await make_refused(ours, routes[0])).path
    for method in METHODS - {"HEAD", *(each.method for each in routes)}:
        answer = await ours.service.nobody.request(method, real)
        assert answer.status == (405 if is_open else 401)
        assert ("Allow" in answer.headers, "WWW-Authenticate" in answer.headers) == (is_open, not is_open)


@every_route
async def test_answer_carries_the_request_id_or_a_new_one(ours: Tenant, route: Route) -> None:
    """`send` checks each time that the client's own id is echoed."""
    path = re.sub(r"\{\w+\}", str(new_id()), route.path)
    answers = [await ours.service.nobody.request(route.method, path) for _ in range(2)]
    first, second = (answer.headers["X-Request-ID"] for answer in answers)
    assert first
    assert second
    assert first != second


@read
async def test_head_answers_like_get_without_a_body(ours: Tenant, route: Route) -> None:
    request = await make(ours, route)
    client = ours.service.nobody.with_authorization(request.authorization)
    for path in (request.path, f"{request.path}?limit=1"):
        whole = await client.get(path)
        head = await client.request("HEAD", path)
        assert (head.status, head.body) == (whole.status, "")
        for name in ("Content-Type", "Link"):
            assert head.headers.get(name) == whole.headers.get(name)
