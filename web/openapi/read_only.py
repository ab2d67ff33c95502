"""Which properties are only shown: those that no request can write."""

from collections.abc import Iterable
from typing import Any

from web.json import JSON_TYPE
from web.openapi.components import Components, Json


def mark_read_only(path_items: Iterable[Json], components: Components) -> None:
    """Mark what no body sets, in each object that is the answer to a body which sets some of it."""
    writable: dict[str, set[str]] = {}
    for operation in (operation for item in path_items for operation in item.values()):
        shown = _answer(operation) if "requestBody" in operation else {}
        if "$ref" in shown:
            sent = components.one_sent(_schema_in(operation["requestBody"]))
            writable.setdefault(shown["$ref"], set()).update(sent.get("properties", {}))
    for reference, written in writable.items():
        properties = components.referred({"$ref": reference}).get("properties", {})
        if written & properties.keys():
            for name in properties.keys() - written:
                properties[name]["readOnly"] = True


def _answer(operation: Json) -> Json:
    """The schema of what the operation shows if it succeeds."""
    success = next(iter(operation["responses"].values()))
    return _schema_in(success) if JSON_TYPE in success.get("content", {}) else {}


def _schema_in(holder: Json) -> Json:
    schema: dict[str, Any] = holder["content"][JSON_TYPE]["schema"]
    return schema
