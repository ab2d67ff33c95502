"""The read-only properties: those that no request can write."""

from collections.abc import Iterable
from typing import Any

from web.json import JSON_TYPE
from web.openapi.components import Components, Json


def mark_read_only(path_items: Iterable[Json], components: Components) -> None:
    """Mark the properties that no body sets, in each response to a body that sets some of them."""
    writable: dict[str, set[str]] = {}
    for operation in (operation for item in path_items for operation in item.values()):
        answer = _answer(operation) if "requestBody" in operation else {}
        if "$ref" in answer:
            body = components.single_body(_schema_in(operation["requestBody"]))
            writable.setdefault(answer["$ref"], set()).update(body.get("properties", {}))
    for reference, written in writable.items():
        properties = components.referred({"$ref": reference}).get("properties", {})
        if written & properties.keys():
            for name in properties.keys() - written:
                properties[name]["readOnly"] = True


def _answer(operation: Json) -> Json:
    """Return the schema of the body of a success, {} if it has none."""
    success = next(iter(operation["responses"].values()))
    return _schema_in(success) if JSON_TYPE in success.get("content", {}) else {}


def _schema_in(holder: Json) -> Json:
    schema: dict[str, Any] = holder["content"][JSON_TYPE]["schema"]
    return schema
