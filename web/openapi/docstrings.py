"""Descriptions from docstrings, also from those of attributes: the string below a field describes it.

Python does not keep the docstrings of attributes, so they are read from the source.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from inspect import cleandoc, getsourcefile
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


def description_of(docstring: str | None) -> str:
    """Return a docstring with each paragraph on a line of its own: some viewers keep all line breaks."""
    paragraphs = cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class _Definition(NamedTuple):
    """A class as its source defines it."""

    base_names: tuple[str, ...]
    docstrings: dict[str, str]  # of its own attributes


def attribute_docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings of the attributes of a class and of its bases by name, each as one line."""
    module = sys.modules[kind.__module__]
    definition = _definitions(kind.__module__).get(kind.__name__)
    if definition is None:  # a class that is made at run time
        return {}
    docstrings: dict[str, str] = {}
    for name in reversed(definition.base_names):  # a TypedDict does not name its bases itself
        parent = getattr(module, name, None)
        if isinstance(parent, type):
            docstrings |= attribute_docstrings(parent)
    return docstrings | definition.docstrings


@cache
def _definitions(module_name: str) -> Mapping[str, _Definition]:
    """Return the classes in the source of a module by name. The tree of the source is not kept."""
    try:
        source = Path(getsourcefile(sys.modules[module_name]) or "").read_bytes()
    except (OSError, TypeError):  # only compiled files are installed: serve without descriptions
        return {}
    return {
        node.name: _Definition(
            tuple(base.id for base in node.bases if isinstance(base, ast.Name)), dict(_docstrings_in(node))
        )
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    }


def _docstrings_in(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement, following in pairwise(definition.body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())


def describe_values(kind: type[StrEnum]) -> str:
    """Return a list of the values that have docstrings, in Markdown; blank if none has."""
    texts = attribute_docstrings(kind)
    return "\n".join(f"- `{member.value}`: {texts[member.name]}" for member in kind if member.name in texts)
