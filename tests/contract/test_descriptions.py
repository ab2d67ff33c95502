"""Everything in the OpenAPI document has a description: what a client sends, reads and calls."""

from collections.abc import Iterator
from typing import Any

from web.app import ROUTES
from web.openapi.document import build_document

DOCUMENT = build_document(ROUTES)
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = [operation for item in DOCUMENT["paths"].values() for operation in item.values()]


def descriptions() -> Iterator[tuple[str, Any]]:
    """Yield each thing that must be described with its description."""
    for tag in DOCUMENT["tags"]:
        yield f"tag {tag['name']}", tag.get("description")
    for name, parameter in DOCUMENT["components"]["parameters"].items():
        yield f"parameter {name}", parameter.get("description")
    for name, header in DOCUMENT["components"]["headers"].items():
        yield f"header {name}", header.get("description")
    for name, schema in SCHEMAS.items():
        yield from schema_descriptions(name, schema)
    for operation in OPERATIONS:
        yield from operation_descriptions(operation)


def schema_descriptions(name: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield f"schema {name}", schema.get("description")
    for field, described in schema.get("properties", {}).items():
        yield f"property {name}.{field}", described.get("description")


def operation_descriptions(operation: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    name = operation["operationId"]
    yield f"operation {name}", operation.get("description")
    for parameter in operation["parameters"]:
        if "$ref" not in parameter:
            yield f"parameter {parameter['name']} of {name}", parameter.get("description")


def test_every_part_of_document_is_described() -> None:
    missing = [name for name, description in descriptions() if not description]
    assert not missing, (
        "describe a field by a string below it in web/schemas, an operation by the docstring of its handler, "
        f"and a tag or an id in a path in web/openapi/paths.py: {missing}"
    )


def test_every_description_is_made_of_sentences() -> None:
    texts = {name: description for name, description in descriptions() if description}
    is_enum = {f"schema {name}" for name, schema in SCHEMAS.items() if "enum" in schema}
    wrong = {name: text for name, text in texts.items() if not text.endswith(".") and name not in is_enum}
    assert not wrong
