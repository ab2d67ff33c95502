"""The parameters of adapter tools: any JSON value, turned into a schema that model providers accept."""

from typing import Any

import orjson

# Some providers refuse a schema with one of these keywords at its top level.
NOT_AT_TOP_LEVEL = frozenset({"$ref", "allOf", "anyOf", "enum", "not", "oneOf"})


def may_take_arguments(parameters: Any) -> bool:
    """Return whether an object can satisfy these parameters, provided that they are a JSON Schema."""
    if not isinstance(parameters, dict):
        return False
    kind = parameters.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def for_models(description: str, parameters: Any, *, is_schema: bool) -> tuple[str, dict[str, Any]]:
    """Return the tool's description and parameters in a form that model providers accept.

    Parameters that providers would refuse as a schema become part of the description.
    """
    if is_schema and isinstance(parameters, dict) and not NOT_AT_TOP_LEVEL & parameters.keys():
        return description, {"properties": {}} | parameters | {"type": "object"}
    if parameters is not None:
        text = parameters if isinstance(parameters, str) else orjson.dumps(parameters).decode()
        description = f"{description}\n\nIt takes: {text}".strip()
    return description, {"type": "object", "properties": {}}
