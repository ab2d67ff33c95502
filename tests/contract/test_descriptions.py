"""Everything in the OpenAPI document has a description: what a client sends, reads and calls."""

import re
from collections.abc import Iterator
from typing import Any, get_args

from tests.contract.requests_by_route import key_of
from tests.web.conftest import api_document
from web.app import ROUTES
from web.openapi.paths import IDS, TAGS
from web.openapi.schemas import attribute_docstrings

DOCUMENT = api_document()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = [operation for item in DOCUMENT["paths"].values() for operation in item.values()]
SENTENCE_END = re.compile(r"\.(?= |$)")


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
        "describe a field by a string below it in web/api, an operation by the docstring of its handler, "
        f"and a tag or an id in a path in web/openapi/paths.py: {missing}"
    )


def test_every_description_ends_with_a_period() -> None:
    assert {name: text for name, text in descriptions() if text and not text.endswith(".")} == {}


def test_fields_are_described_in_one_or_two_sentences() -> None:
    texts = {
        name: text for name, text in descriptions() if text and name.startswith(("property", "parameter"))
    }
    own = {name: text.partition("\n\n- ")[0] for name, text in texts.items()}  # without the values of an enum
    assert {name: text for name, text in own.items() if len(SENTENCE_END.findall(text)) > 2} == {}


def test_fields_that_may_be_null_say_when() -> None:
    nullable = {
        f"{name}.{field}": described["description"]
        for name, schema in SCHEMAS.items()
        for field, described in schema.get("properties", {}).items()
        if any("null" in each.get("type", ()) for each in (described, *described.get("anyOf", ())))
    }
    assert nullable
    assert [name for name, text in nullable.items() if "null" not in text] == []


def test_texts_about_tags_and_ids_are_all_used() -> None:
    assert {tag["name"] for tag in DOCUMENT["tags"]} == TAGS.keys()
    text = str(DOCUMENT["paths"])
    assert [collection for collection, description in IDS.items() if description not in text] == []


def test_body_and_answer_share_their_descriptions() -> None:
    for route in (each for each in ROUTES if each.body and each.answer):
        answer = next(iter(get_args(route.answer)), route.answer)  # of one item, if there may be several
        repeated = attribute_docstrings(type(route.body)).items() & attribute_docstrings(answer).items()
        assert not repeated, f"leave out the string below the field of the body of {key_of(route)}"
