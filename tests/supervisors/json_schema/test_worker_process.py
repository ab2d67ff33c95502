"""The worker process of the schema checker: its two requests."""

from typing import Any

import pytest

from supervisors.json_schema.worker_process import (
    DIALECT,
    MAX_CHARACTERS,
    MAX_ERRORS,
    OUTSIDE,
    find_errors,
    find_outside_references,
    leaves_the_document,
)


@pytest.mark.parametrize(
    ("schema", "leaves"),
    [
        (None, False),
        ({"$ref": "#/$defs/a"}, False),
        ({"$ref": "#anchor"}, False),
        ({"properties": {"$ref": {"type": "string"}}}, False),
        ({"$id": "http://example.com/a", "$ref": "b", "$defs": {"b": {"$id": "b"}}}, False),
        ({"$id": "http://example.com/a", "$ref": "http://example.com/a#/$defs/x"}, False),
        ({"$ref": "other.json"}, True),
        ({"$ref": "http://example.com/a"}, True),
        ({"$ref": "http://["}, True),
        ({"$ref": "file:///etc/passwd"}, True),
        ({"$dynamicRef": "http://example.com/a#x"}, True),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, True),
        ([{"items": [{"$ref": "//example.com"}]}], True),
    ],
)
def test_leaves_the_document_finds_references_to_outside(schema: Any, leaves: bool) -> None:
    assert leaves_the_document(schema) == leaves


def test_errors_of_values_name_their_paths() -> None:
    schema = {"type": "object", "properties": {"ports": {"items": {"type": "integer"}}}}

    assert list(find_errors(schema, {"ports": [1, "two"]})) == ['$.ports[1]: "two" is not of type "integer"']
    assert list(find_errors(schema, {"ports": [1]}, [])) == ['$: [] is not of type "object"']


def test_number_and_length_of_errors_of_a_value_are_limited() -> None:
    errors = list(find_errors({"additionalProperties": {"type": "string"}}, {"x" * 999: 1}))
    assert [len(error) for error in errors] == [MAX_CHARACTERS]

    errors = list(find_errors({"items": {"type": "string"}}, list(range(99))))
    assert len(errors) == MAX_ERRORS


@pytest.mark.parametrize("suffix", ["", "#"])
def test_supported_dialect_may_be_named(suffix: str) -> None:
    assert list(find_errors({"$schema": DIALECT + suffix}, 7)) == []


def test_reference_to_outside_is_the_only_error() -> None:
    outside = {"$ref": "http://example.com/a", "type": 7}

    assert list(find_errors(outside, 7)) == [OUTSIDE]
    assert list(find_outside_references([outside])) == [OUTSIDE]
    assert list(find_outside_references([{"$ref": "#"}])) == []
