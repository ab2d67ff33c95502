"""What the parts of a finished document tell each other: which properties are read-only, and descriptions.

No sentence is written twice: a body shares the descriptions of the answer. The meanings of an enum's values
are shown wherever it is used, because viewers show the description of a property, not that of its enum.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

from web.json import JSON_TYPE
from web.openapi.schemas import Components, Json, describe_values


def exchanges(path_items: Iterable[Json], components: Components) -> Iterator[tuple[Json, str]]:
    """Yield the schema of each body and the name of its answer's, if it has one; each of a single item."""
    for operation in (operation for item in path_items for operation in item.values()):
        success = next(iter(operation["responses"].values()))
        if "requestBody" in operation and JSON_TYPE in success.get("content", {}):
            answer = single(_schema_in(success))
            if "$ref" in answer:
                body = components.referred(single(_schema_in(operation["requestBody"])))
                yield body, answer["$ref"].rpartition("/")[2]


def single(schema: Json) -> Json:
    """Return the schema of a single item if there may also be a list of them."""
    first: Json = schema.get("anyOf", [schema])[0]
    return first


def _schema_in(holder: Json) -> Json:
    schema: dict[str, Any] = holder["content"][JSON_TYPE]["schema"]
    return schema


def relate_bodies(path_items: Iterable[Json], components: Components) -> None:
    """Describe each undescribed field of a body as the property of the same name in the answer.

    In each response to a body that sets some of its properties, mark those that no body sets as read-only.
    """
    writable: dict[str, set[str]] = {}
    for body, answer in exchanges(path_items, components):
        writable.setdefault(answer, set()).update(body.get("properties", {}))
        _inherit(body, components.schemas[answer], components)
    for answer, written in writable.items():
        properties = components.schemas[answer].get("properties", {})
        if written & properties.keys():
            for name in properties.keys() - written:
                properties[name]["readOnly"] = True


def _inherit(body: Json, answer: Json, components: Components) -> None:
    properties = answer.get("properties", {})
    for name, field in body.get("properties", {}).items():
        described = properties.get(name, {})
        if "description" not in field and "description" in described:
            field["description"] = described["description"]
        if "items" in field and "items" in described:
            _inherit(components.referred(field["items"]), components.referred(described["items"]), components)


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
