"""The descriptions that a body shares with the answer, so that no sentence is written twice."""

from collections.abc import Iterable

from web.openapi.components import Components, Json
from web.openapi.exchanges import exchanges


def inherit_descriptions(path_items: Iterable[Json], components: Components) -> None:
    """Describe each undescribed field of a body as the property of the same name in the answer."""
    for exchange in exchanges(path_items, components):
        _inherit(exchange.body, components.schemas[exchange.answer], components)


def _inherit(body: Json, answer: Json, components: Components) -> None:
    properties = answer.get("properties", {})
    for name, field in body.get("properties", {}).items():
        described = properties.get(name, {})
        if "description" not in field and "description" in described:
            field["description"] = described["description"]
        if "items" in field and "items" in described:
            _inherit(components.referred(field["items"]), components.referred(described["items"]), components)
