"""Meanings of an enum's values beside the properties and parameters that have them."""

from enum import StrEnum
from typing import TypedDict

from web.openapi.finishing import append_value_meanings
from web.openapi.schemas import Components, Json, answer_schema, describe_values


class Size(StrEnum):
    SMALL = "small"
    """It fits a pocket."""
    OTHER = "other"


class ThingResponse(TypedDict):
    size: Size | None
    """How big it is."""
    sizes: list[Size]
    """All sizes."""
    undescribed: Size


MEANINGS = "- `small`: It fits a pocket."


def test_values_with_docstrings_are_listed() -> None:
    assert describe_values(Size) == MEANINGS


def test_properties_show_what_the_values_mean() -> None:
    components = Components()
    answer_schema(ThingResponse, components)
    append_value_meanings([], components)
    properties = components.schemas["Thing"]["properties"]
    assert properties["size"]["description"] == f"How big it is.\n\n{MEANINGS}"
    assert properties["sizes"]["description"] == f"All sizes.\n\n{MEANINGS}"
    assert "description" not in properties["undescribed"]


def test_parameters_show_what_the_values_mean() -> None:
    components = Components()
    parameter: Json = {"name": "size", "description": "Only this size.", "schema": {}}
    parameter["schema"] = answer_schema(Size, components)
    plain: Json = {"$ref": "#/components/parameters/RequestId"}
    append_value_meanings([{"get": {"parameters": [parameter, plain]}}], components)
    assert parameter["description"] == f"Only this size.\n\n{MEANINGS}"
