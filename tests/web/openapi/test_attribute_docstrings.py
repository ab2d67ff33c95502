"""Docstrings of attributes, read from the source."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from web.fields import Line, Text
from web.openapi.attribute_docstrings import attribute_docstrings
from web.request.parsing import Body


class Base(TypedDict):
    id: int
    """The id of the base."""
    name: str
    """The name,
    at most 9 characters."""


class Derived(Base):
    id: int
    """The id of the derived."""
    size: int


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    """The distance from the left."""


class Colour(StrEnum):
    RED = "red"
    """Like a tomato."""
    BLUE = "blue"


class NewBody(Body):
    """A body."""

    name = Line()
    """The name."""
    text = Text()


def test_typed_dict_inherits_docstrings_and_replaces_them() -> None:
    assert attribute_docstrings(Derived) == {
        "id": "The id of the derived.",
        "name": "The name, at most 9 characters.",
    }


def test_dataclass_enum_and_body_have_docstrings() -> None:
    assert attribute_docstrings(Point) == {"x": "The distance from the left."}
    assert attribute_docstrings(Colour)["RED"] == "Like a tomato."
    assert "BLUE" not in attribute_docstrings(Colour)
    body = attribute_docstrings(NewBody)
    assert (body["name"], "text" in body) == ("The name.", False)


def test_class_without_source_has_no_docstrings() -> None:
    assert attribute_docstrings(type("Made", (), {})) == {}
