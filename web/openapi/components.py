"""The schemas that a document names once and refers to from everywhere else."""

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


class Components:
    """Named schemas, each built when it is first asked for."""

    def __init__(self) -> None:
        self.schemas: dict[str, Json] = {}
        self._sources: dict[str, object] = {}

    def refer(self, name: str, source: object, build: Callable[[], Json]) -> Json:
        """A reference to the schema of this name; ValueError if another source has that name already."""
        if self._sources.setdefault(name, source) != source:
            raise ValueError(f"two different schemas would be named {name}")
        if name not in self.schemas:
            self.schemas[name] = {}  # its place, also for one that refers to itself
            self.schemas[name] = build()
        return {"$ref": f"#/components/schemas/{name}"}

    def referred(self, reference: Json) -> Json:
        """The schema that a reference is to; what is no reference, itself."""
        name = reference.get("$ref", "").rpartition("/")[2]
        return self.schemas[name] if name else reference

    def one_sent(self, body: Json) -> Json:
        """The schema of one of the things that a body holds, where it may hold a list of them, too."""
        return self.referred(body.get("anyOf", [body])[0])


def nullable(schema: Json) -> Json:
    """The same schema, or null."""
    if not schema:
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and not {"enum", "const", "format", "pattern"} & schema.keys():
        return {**schema, "type": [kind, "null"]}
    alternatives = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return {"anyOf": [*alternatives, {"type": "null"}]}
