"""The schemas that belong together: the body of a request and that of its answer."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from web.json import JSON_TYPE
from web.openapi.components import Components, Json


class Exchange(NamedTuple):
    """The schema of an operation's request body, and the name of its answer's; each of a single item."""

    body: Json
    answer: str


def exchanges(path_items: Iterable[Json], components: Components) -> Iterator[Exchange]:
    """Yield the exchange of each operation that has a body and answers with a named schema."""
    for operation in (operation for item in path_items for operation in item.values()):
        success = next(iter(operation["responses"].values()))
        if "requestBody" in operation and JSON_TYPE in success.get("content", {}):
            answer = single(_schema_in(success))
            if "$ref" in answer:
                body = components.referred(single(_schema_in(operation["requestBody"])))
                yield Exchange(body, answer["$ref"].rpartition("/")[2])


def single(schema: Json) -> Json:
    """Return the schema of a single item if there may also be a list of them."""
    first: Json = schema.get("anyOf", [schema])[0]
    return first


def _schema_in(holder: Json) -> Json:
    schema: dict[str, Any] = holder["content"][JSON_TYPE]["schema"]
    return schema
