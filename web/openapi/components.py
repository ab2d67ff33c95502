"""The schemas that a document defines once and refers to elsewhere."""

from collections.abc import Callable
from typing import Any

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
