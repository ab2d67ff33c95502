"""The worker process of the schema checker: its two requests."""

from typing import Any

import pytest

from supervisors.json_schema.worker_process import (
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
