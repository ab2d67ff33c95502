"""The read-only properties: those that no request can write."""

from collections.abc import Iterable

from web.openapi.components import Components, Json
from web.openapi.exchanges import exchanges


def mark_read_only(path_items: Iterable[Json], components: Components) -> None:
    """Mark the properties that no body sets, in each response to a body that sets some of them."""
    writable: dict[str, set[str]] = {}
    for exchange in exchanges(path_items, components):
        writable.setdefault(exchange.answer, set()).update(exchange.body.get("properties", {}))
    for answer, written in writable.items():
        properties = components.schemas[answer].get("properties", {})
        if written & properties.keys():
            for name in properties.keys() - written:
                properties[name]["readOnly"] = True
