"""Descriptions from docstrings."""

import importlib
import py_compile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

import pytest

from web.fields import Line, Text
from web.openapi.schemas import attribute_docstrings, description_of
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


def test_description_has_each_paragraph_on_a_line() -> None:
    docstring = """Do this.

    It is said in
    two lines.
    """
    assert description_of(docstring) == "Do this.\n\nIt is said in two lines."
    assert description_of(None) == ""


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


def test_class_made_at_run_time_has_no_docstrings() -> None:
    assert attribute_docstrings(type("Made", (), {})) == {}


def test_module_with_compiled_file_alone_has_no_docstrings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "only_compiled.py"
    source.write_text("class Point:\n    x = 1\n    'The distance from the left.'")
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")))
    source.unlink()
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("only_compiled")
    assert attribute_docstrings(module.Point) == {}
