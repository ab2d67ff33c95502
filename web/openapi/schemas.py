"""The schemas of a document, each defined once and referred to elsewhere, and those of answers by type.

Their descriptions are docstrings, also those of attributes: the string below a field describes it. Python
does not keep these, so they are read from the source.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from inspect import cleandoc, getsourcefile
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID


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


Json = dict[str, Any]


class Components:
    """Named schemas, each built at its first use."""

    def __init__(self) -> None:
        self.schemas: dict[str, Json] = {}
        self._sources: dict[str, object] = {}

    def refer(self, name: str, source: object, build: Callable[[], Json]) -> Json:
        """Return a reference to the schema of this name. Raise ValueError if another source has the name."""
        if self._sources.setdefault(name, source) != source:
            raise ValueError(f"two different schemas have the name {name}: rename one of their types")
        if name not in self.schemas:
            self.schemas[name] = {}  # a placeholder, so that a schema can refer to itself
            self.schemas[name] = build()
        return {"$ref": f"#/components/schemas/{name}"}

    def source(self, reference: str) -> object:
        """Return the source of the schema behind a reference."""
        return self._sources[reference.rpartition("/")[2]]

    def referred(self, reference: Json) -> Json:
        """Return the schema behind a reference; any other schema as it is."""
        name = reference.get("$ref", "").rpartition("/")[2]
        return self.schemas[name] if name else reference


def nullable(schema: Json) -> Json:
    """Return the schema with null as a further value."""
    if not schema:
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and not {"enum", "const", "format", "pattern"} & schema.keys():
        return {**schema, "type": [kind, "null"]}
    alternatives = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return {"anyOf": [*alternatives, {"type": "null"}]}


PLAIN: dict[Any, Json] = {
    Any: {},
    NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "format": "binary"},
    UUID: {"type": "string", "format": "uuid"},
    datetime: {"type": "string", "format": "date-time"},
}
LISTS = (list, tuple, Sequence)
OBJECTS = (dict, Mapping)


def answer_schema(kind: Any, components: Components) -> Json:
    """Describe the values of a type. Raise TypeError for a type that no response can have."""
    if kind in PLAIN:
        return dict(PLAIN[kind])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return _union(arguments, components)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in LISTS:
        return {"type": "array", "items": answer_schema(arguments[0], components)}
    if origin in OBJECTS:
        return {"type": "object", "additionalProperties": answer_schema(arguments[1], components)}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return enum_reference(kind, components)
    if is_typeddict(kind) or is_dataclass(kind):
        return _refer(kind, components, lambda: _object(kind, components))
    raise TypeError(f"the API document cannot describe the type {kind}: add it to web/openapi/schemas.py")


def enum_reference(kind: type[StrEnum], components: Components) -> Json:
    """Refer to the values of an enum; those with a docstring are listed in its description."""
    return _refer(kind, components, lambda: _enum(kind))


def _enum(kind: type[StrEnum]) -> Json:
    schema: Json = {"type": "string", "enum": [member.value for member in kind]}
    summary = description_of(kind.__dict__.get("__doc__"))
    description = "\n\n".join(filter(None, [summary, describe_values(kind)]))
    return {**schema, "description": description} if description else schema


def _refer(kind: type, components: Components, build: Callable[[], Json]) -> Json:
    """Return a reference by the name of the type: `Agent` for `AgentResponse`."""
    return components.refer(kind.__name__.removesuffix("Response"), kind, build)


def _union(kinds: Sequence[Any], components: Components) -> Json:
    schemas = [answer_schema(kind, components) for kind in kinds if kind is not NoneType]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return nullable(schema) if NoneType in kinds else schema


def _property(name: str) -> str:
    """Return the name of a field in JSON: one that is a keyword of Python has an underscore behind it."""
    return name.removesuffix("_")


def _object(kind: Any, components: Components) -> Json:
    hints = get_type_hints(kind)
    required = kind.__required_keys__ if is_typeddict(kind) else hints
    texts = attribute_docstrings(kind)
    properties = {_property(name): answer_schema(hint, components) for name, hint in hints.items()}
    for name in hints.keys() & texts.keys():
        properties[_property(name)]["description"] = texts[name]
    schema: Json = {
        "type": "object",
        "properties": properties,
        "required": [_property(name) for name in hints if name in required],
    }
    description = kind.__dict__.get("__doc__")
    if description and not description.startswith(f"{kind.__name__}("):  # a dataclass's own signature
        schema["description"] = description_of(description)
    return schema
