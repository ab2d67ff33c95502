"""The meanings of an enum's values, shown wherever the enum is used.

Readers of the document show the description of a property instead of the one of the enum that it refers to.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from web.openapi.components import Components, Json
from web.openapi.docstrings import attribute_docstrings


def describe_values(kind: type[StrEnum]) -> str:
    """Return a list of the values that have docstrings, in Markdown; blank if none has."""
    texts = attribute_docstrings(kind)
    return "\n".join(f"- `{member.value}`: {texts[member.name]}" for member in kind if member.name in texts)


def append_value_meanings(path_items: Iterable[Json], components: Components) -> None:
    """Append the meanings of the values to each described property and parameter that has an enum."""
    for schema in components.schemas.values():
        for field in schema.get("properties", {}).values():
            _append(field, field, components)
    for operation in (operation for item in path_items for operation in item.values()):
        for parameter in operation["parameters"]:
            _append(parameter, parameter.get("schema", {}), components)


def _append(described: Json, schema: Json, components: Components) -> None:
    kinds = [components.source(reference) for reference in _references(schema)]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, StrEnum) and "description" in described:
            meanings = describe_values(kind)
            described["description"] = "\n\n".join(filter(None, [described["description"], meanings]))


def _references(schema: Json) -> Iterator[str]:
    """Yield the references of a schema, of its alternatives and of its items."""
    for part in (schema, schema.get("items", {}), *schema.get("anyOf", ())):
        if "$ref" in part:
            yield part["$ref"]
