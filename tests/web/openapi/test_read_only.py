"""Properties that no request can write."""

from typing import Any

from tests.web.openapi.operations import operation, schema_of
from web.openapi.finishing import mark_read_only
from web.openapi.schemas import Components


def read_only(components: Components, name: str) -> set[str]:
    properties: dict[str, Any] = components.schemas[name]["properties"]
    return {name for name, schema in properties.items() if schema.get("readOnly")}


def test_property_that_no_body_sets_is_read_only() -> None:
    components = Components()
    answer = components.refer("Thing", "answer", lambda: schema_of("id", "name", "size"))
    create = components.refer("ThingBody", "create", lambda: schema_of("name"))
    change = components.refer("ThingChanges", "change", lambda: schema_of("size"))
    mark_read_only([{"post": operation(create, answer), "patch": operation(change, answer)}], components)
    assert read_only(components, "Thing") == {"id"}


def test_response_unrelated_to_body_stays_unmarked() -> None:
    components = Components()
    answer = components.refer("Token", "answer", lambda: schema_of("token"))
    login = components.refer("LoginBody", "login", lambda: schema_of("password"))
    mark_read_only([{"post": operation(login, answer)}], components)
    assert read_only(components, "Token") == set()
