"""Named schemas and references to them."""

import pytest

from web.openapi.schemas import Components, Json, nullable

TEXT: Json = {"type": "string"}


def test_schema_is_built_once_and_referred_to() -> None:
    components = Components()
    assert components.refer("Text", str, lambda: TEXT) == components.refer("Text", str, dict)
    assert components.schemas == {"Text": TEXT}
    assert components.referred({"$ref": "#/components/schemas/Text"}) == TEXT
    assert components.referred(TEXT) == TEXT


def test_schema_may_refer_to_itself() -> None:
    components = Components()

    def build() -> Json:
        return {"items": components.refer("Tree", list, build)}

    components.refer("Tree", list, build)
    assert components.schemas == {"Tree": {"items": {"$ref": "#/components/schemas/Tree"}}}


def test_name_of_another_schema_is_refused() -> None:
    components = Components()
    components.refer("Text", str, lambda: TEXT)
    with pytest.raises(ValueError, match="Text"):
        components.refer("Text", bytes, lambda: TEXT)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {}),
        ({"type": "integer"}, {"type": ["integer", "null"]}),
        ({"$ref": "#/x"}, {"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}),
        ({"anyOf": [TEXT]}, {"anyOf": [TEXT, {"type": "null"}]}),
        (
            {"type": "string", "format": "uuid"},
            {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]},
        ),
    ],
)
def test_nullable_adds_null(schema: Json, expected: Json) -> None:
    assert nullable(schema) == expected
