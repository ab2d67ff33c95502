"""Bodies of requests with those of their answers."""

from tests.web.openapi.operations import operation, schema_of
from web.openapi.finishing import exchanges, single
from web.openapi.schemas import Components


def test_exchange_is_of_a_single_item() -> None:
    components = Components()
    thing = components.refer("Thing", "answer", lambda: schema_of("id"))
    body = components.refer("ThingBody", "body", lambda: schema_of("name"))
    several = {"anyOf": [body, {"type": "array", "items": body}]}
    answers = {"anyOf": [thing, {"type": "array", "items": thing}]}
    assert list(exchanges([{"post": operation(several, answers)}], components)) == [
        (schema_of("name"), "Thing")
    ]


def test_operation_without_named_answer_is_left_out() -> None:
    body = operation(schema_of("name"), schema_of("id"))
    without_answer = {**body, "responses": {"204": {}}}
    assert not list(exchanges([{"post": body, "patch": without_answer}], Components()))


def test_single_schema_is_itself() -> None:
    assert single(schema_of("id")) == schema_of("id")
