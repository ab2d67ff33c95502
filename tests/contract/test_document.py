"""The OpenAPI document is valid, complete, and right where the types alone do not ensure it."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
from openapi_spec_validator import validate

from storage.model import Role
from tests.contract.leniency import Json
from tests.web.conftest import Service, api_document
from tests.web.people import as_user, join, new_user
from web.app import ROUTES
from web.openapi.examples import ANSWERS, REQUESTS
from web.routes import Access

DOCUMENT = api_document()


def operations() -> Iterator[tuple[str, str, Json]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def operation_of(name: str) -> Json:
    return next(each for _, _, each in operations() if each["operationId"] == name)


def violations(value: Any, schema: Json) -> list[str]:
    whole = {**schema, "components": DOCUMENT["components"]}
    validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
    return [error.message for error in validator.iter_errors(value)]


def schema_in(holder: Json) -> Json:
    schema: Json = holder["content"]["application/json"]["schema"]
    return schema


def test_document_is_valid_openapi_3_1() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    validate(DOCUMENT)


def test_document_contains_every_route() -> None:
    described = {(method, path) for method, path, _ in operations()}
    assert described == {(route.method, route.path) for route in ROUTES}


def test_money_schema_accepts_rounded_floats() -> None:
    body = schema_in(operation_of("create_agent")["requestBody"])
    for amount in (0, 0.1, 0.000001, 3.3, 12345678.654321):
        assert violations({"name": "Ann", "model": "m", "max_cost_usd_per_day": amount}, body) == [], amount


def test_document_contains_its_own_page() -> None:
    page = DOCUMENT["paths"]["/api/docs/"]["get"]
    assert (page["security"], list(page["responses"]["200"]["content"])) == ([], ["text/html"])


def test_every_operation_id_is_unique() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def test_every_reference_resolves() -> None:
    for reference in re.findall(r"'\$ref': '#/([^']*)'", str(DOCUMENT)):
        tenant: Any = DOCUMENT
        for step in reference.split("/"):
            assert step in tenant, reference
            tenant = tenant[step]


def test_request_examples_fit_their_schemas() -> None:
    for name, example in REQUESTS.items():
        assert violations(example, schema_in(operation_of(name)["requestBody"])) == [], name


def test_headers_of_requests_are_plain_strings() -> None:
    headers = DOCUMENT["components"]["parameters"].values()
    assert {header["in"] for header in headers} == {"header"}
    assert not [header["name"] for header in headers if "format" in header["schema"]], (
        "a generated client turns a formatted value into an object, which it cannot send in a header"
    )


def test_answer_examples_fit_their_schemas() -> None:
    for name, example in ANSWERS.items():
        success = next(iter(operation_of(name)["responses"].values()))
        assert violations(example, schema_in(success)) == [], name


def test_document_contains_field_rules() -> None:
    body = DOCUMENT["components"]["schemas"]["AgentBody"]
    assert body["required"] == ["name"]
    fields = body["properties"]
    assert (fields["name"]["minLength"], fields["name"]["maxLength"]) == (1, 255)
    assert (fields["max_turns"]["minimum"], fields["max_turns"]["maximum"]) == (-(2**31), 2**31 - 1)
    assert fields["tags"]["items"]["maxLength"] == 255
    assert "" in fields["reasoning_effort"]["enum"]
    purpose = fields["purpose"]
    assert (purpose["$ref"], purpose["default"]) == ("#/components/schemas/Purpose", "production")
    assert {"type": "null"} in fields["sleep_until"]["anyOf"]
    assert fields["timezone"]["default"] == "UTC"


def test_unwritable_fields_are_read_only() -> None:
    fields = DOCUMENT["components"]["schemas"]["Agent"]["properties"]
    read_only = {name for name, field in fields.items() if field.get("readOnly")}
    assert read_only == {"id", "organization", "parent_name", "template_name", "created_at"}


def test_bodies_have_three_media_types() -> None:
    for _, path, operation in operations():
        if "requestBody" in operation:
            assert list(operation["requestBody"]["content"]) == [
                "application/json",
                "application/x-www-form-urlencoded",
                "multipart/form-data",
            ], path


def test_security_matches_the_routes() -> None:
    security = {name: operation_of(name)["security"] for name in ("sign_up", "list_agents", "get_status")}
    assert security == {
        "sign_up": [],
        "list_agents": [{"ApiKey": []}, {"UserToken": []}],
        "get_status": [{"OperatorToken": []}],
    }


async def test_document_is_served_without_credential(service: Service) -> None:
    answer = await service.nobody.get("/api/schema/")
    assert (answer.status, answer.body) == (200, DOCUMENT)


async def test_organization_header_is_documented_where_it_chooses(service: Service) -> None:
    """Only routes that need the organization refuse a member of several who does not name it."""
    user, _ = await new_user(service)
    _, second = await new_user(service)
    await join(service, user, second.id, Role.ADMIN)
    ann = as_user(service, user)
    for route in ROUTES:
        if route.access is Access.CALLERS and "{" not in route.path and "/auth/" not in route.path:
            body = {
                "name": "Ada",
                "title": "Notes",
                "model": "builtin/inbox",
                "email": "ada@example.org",
                "url": "https://hooks.example/",
                "types": ["*"],
            }
            answer = await ann.request(route.method, route.path, json=body)
            is_needed = answer.body == {
                "organization": ["You belong to several organizations: name one in X-Organization."]
            }
            assert is_needed == route.by_header, route.path
