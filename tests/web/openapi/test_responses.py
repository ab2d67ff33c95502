"""The description of response types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

import pytest

from storage.model import Priority
from web.openapi.schemas import Components, Json, answer_schema


class ThingResponse(TypedDict):
    """A thing."""

    id: UUID
    made_at: NotRequired[datetime]
    """When it was made."""


class Size(StrEnum):
    """The size of a thing."""

    SMALL = "small"
    """It fits a pocket."""
    OTHER = "other"


@dataclass
class Plain:
    parent: "Plain | None"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (int, {"type": "integer"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Any, {}),
        (str | None, {"type": ["string", "null"]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (Priority, {"$ref": "#/components/schemas/Priority"}),
        (ThingResponse, {"$ref": "#/components/schemas/Thing"}),
    ],
)
def test_type_is_described(kind: Any, expected: Json) -> None:
    assert answer_schema(kind, Components()) == expected


def test_typed_dict_has_required_properties_and_description() -> None:
    components = Components()
    answer_schema(ThingResponse, components)
    schema = components.schemas["Thing"]
    assert (schema["required"], schema["description"]) == (["id"], "A thing.")
    assert schema["properties"]["made_at"]["description"] == "When it was made."


def test_enum_description_lists_documented_values() -> None:
    components = Components()
    answer_schema(Size, components)
    assert components.schemas["Size"] == {
        "type": "string",
        "enum": ["small", "other"],
        "description": "The size of a thing.\n\n- `small`: It fits a pocket.",
    }


def test_dataclass_may_refer_to_itself() -> None:
    components = Components()
    answer_schema(Plain, components)
    schema = components.schemas["Plain"]
    assert "description" not in schema
    assert schema["properties"]["parent"]["anyOf"][0] == {"$ref": "#/components/schemas/Plain"}


@pytest.mark.parametrize("kind", [object, bytearray, set[int]])
def test_type_that_no_response_has_is_refused(kind: Any) -> None:
    with pytest.raises(TypeError):
        answer_schema(kind, Components())
