"""The description of request fields."""

from typing import Any

import pytest
from marshmallow import fields

from storage.model import Priority
from web.fields import (
    MAX_ITEMS,
    Boolean,
    Choice,
    Datetime,
    DayOrDatetime,
    Integer,
    JsonObject,
    JsonValue,
    Line,
    ListOf,
    ObjectOf,
    Text,
    Uuid,
)
from web.openapi.requests import body_content, body_reference, field_schema, query_parameters
from web.openapi.schemas import Components, Json
from web.request.parsing import Body


class InnerBody(Body):
    size = Integer(min_value=1, max_value=5)


class OuterBody(Body):
    """A body."""

    name = Line(required=True, blank=False)
    mode_name = Text(data_key="mode", load_default="fast")
    """How it is made."""
    extra = JsonValue()


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (Integer(min_value=1, max_value=5), {"type": "integer", "minimum": 1, "maximum": 5}),
        (Text(max_length=9, allow_none=True), {"type": ["string", "null"], "maxLength": 9}),
        (Boolean(load_default=True), {"type": "boolean", "default": True}),
        (Uuid(), {"type": "string", "format": "uuid"}),
        (Datetime(), {"type": "string", "format": "date-time"}),
        (
            DayOrDatetime(),
            {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]},
        ),
        (Choice(Priority), {"$ref": "#/components/schemas/Priority"}),
        (Choice(Priority, blank=True), {"type": "string", "enum": [*Priority, ""]}),
        (JsonObject(), {"type": "object"}),
        (JsonValue(allow_none=True), {}),
        (ListOf(Text()), {"type": "array", "items": {"type": "string"}, "maxItems": MAX_ITEMS}),
        (ObjectOf(InnerBody), {"$ref": "#/components/schemas/InnerBody"}),
    ],
)
def test_field_is_described(field: fields.Field[Any], expected: Json) -> None:
    assert field_schema(field, Components(), with_default=True) == expected


def test_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        field_schema(fields.IP(), Components(), with_default=True)


def test_body_has_required_fields_and_description() -> None:
    components = Components()
    assert body_reference(OuterBody(), components, partial=False) == {
        "$ref": "#/components/schemas/OuterBody"
    }
    schema = components.schemas["OuterBody"]
    assert (schema["required"], schema["description"]) == (["name"], "A body.")
    assert schema["properties"]["mode"] == {
        "type": "string",
        "default": "fast",
        "description": "How it is made.",
    }


def test_partial_body_requires_and_fills_in_nothing() -> None:
    components = Components()
    reference = body_reference(OuterBody(), components, partial=True)
    assert reference == {"$ref": "#/components/schemas/PatchedOuterBody"}
    schema = components.schemas["PatchedOuterBody"]
    assert "required" not in schema
    assert "default" not in schema["properties"]["mode"]


def test_body_is_json_or_form() -> None:
    content = body_content(OuterBody(), Components(), max_items=3)
    assert content["application/json"]["schema"]["anyOf"][1]["maxItems"] == 3
    for form in ("application/x-www-form-urlencoded", "multipart/form-data"):
        assert content[form]["encoding"] == {"extra": {"contentType": "application/json"}}


def test_query_parameters_are_never_null() -> None:
    class Query(Body):
        size = Integer(min_value=1, max_value=5, load_default=None, allow_none=True)
        """The size."""

    schema = {"type": "integer", "minimum": 1, "maximum": 5}
    assert query_parameters(Query(), Components()) == [
        {"name": "size", "in": "query", "required": False, "schema": schema, "description": "The size."}
    ]
