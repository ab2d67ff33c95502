"""The parameters of adapters' tools: any JSON, shown to models as a schema that their providers take."""

from typing import Any

import orjson

# What the schema of a function may not have at its top, as some providers see it.
NOT_AT_THE_TOP = frozenset({"$ref", "allOf", "anyOf", "enum", "not", "oneOf"})


def may_take_arguments(parameters: Any) -> bool:
    """Whether it is, if it is a JSON Schema at all, one that arguments can fit: they are always an object."""
    if not isinstance(parameters, dict):
        return False
    kind = parameters.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def for_models(description: str, parameters: Any, *, is_schema: bool) -> tuple[str, dict[str, Any]]:
    """A description and a schema of an object that say as much as the tool's own do.

    What providers would not take as a schema becomes words of the description.
    """
    if is_schema and isinstance(parameters, dict) and not NOT_AT_THE_TOP & parameters.keys():
        return description, {"properties": {}} | parameters | {"type": "object"}
    if parameters is not None:
        words = parameters if isinstance(parameters, str) else orjson.dumps(parameters).decode()
        description = f"{description}\n\nIt takes: {words}".strip()
    return description, {"type": "object", "properties": {}}
