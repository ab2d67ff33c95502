"""Which values count as another way to write a value when the service is fuzzed."""

from typing import Any

import pytest

from tests.contract.leniency import Json, Leniency

LENIENCY = Leniency({"components": {"schemas": {"Kind": {"type": "string", "enum": ["a", "b"]}}}})

BODY: Json = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "maximum": 9},
        "on": {"type": "boolean"},
        "cost": {"type": ["number", "null"]},
        "name": {"type": "string", "maxLength": 3},
        "kind": {"$ref": "#/components/schemas/Kind"},
        "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        "ids": {"type": "array", "items": {"type": "string", "format": "uuid"}},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    "fields",
    [
        {"count": "7"},
        {"count": 7.0},
        {"on": "TRUE"},
        {"on": 0},
        {"cost": "1.5"},
        {"name": 12},
        {"name": " abc "},
        {"at": "2026-11-20 10:00"},
        {"at": "2026-11-20T10:00:00+0100"},
        {"unknown": []},
    ],
)
def test_other_way_to_write_a_value_is_allowed(fields: Json) -> None:
    assert LENIENCY.allows({"name": "abc", **fields}, BODY)


@pytest.mark.parametrize(
    "fields",
    [
        {"count": "10"},
        {"count": 7.5},
        {"count": True},
        {"on": "yes"},
        {"on": 2},
        {"cost": "a"},
        {"name": True},
        {"name": "abcd"},
        {"name": None},
        {"kind": "c"},
        {"at": "2026-11-20"},
        {"at": "2026-02-30T10:00:00Z"},
        {"ids": ["7"]},
        {"ids": "01a1f880-33df-73ec-b86e-a7ed267184ca"},
    ],
)
def test_value_that_is_wrong_either_way_is_refused(fields: Json) -> None:
    assert not LENIENCY.allows({"name": "abc", **fields}, BODY)


def test_body_that_is_no_object_is_refused() -> None:
    values: list[Any] = [None, [], "x", 1]
    assert not any(LENIENCY.allows(value, BODY) for value in values)


def test_form_counts_as_an_object() -> None:
    texts = {"name": ["x", "abc"], "ids": ["a", "b"], "cost": [""], "other": ["1"]}
    assert LENIENCY.read_form(texts, BODY) == {"name": "abc", "ids": ["a", "b"], "cost": None}


def test_null_for_an_object_is_written_as_json_null() -> None:
    nullable = {"anyOf": [{"type": "object"}, {"type": "null"}]}
    schema: Json = {"properties": {"event": nullable, "config": {}}}
    encoding: Json = {"event": {}, "config": {}}

    written = LENIENCY.written_as_form(
        {"event": None, "config": None}, {"schema": schema, "encoding": encoding}
    )

    assert written == {"event": "null", "config": '"null"'}


def test_single_blank_in_a_form_is_an_empty_list() -> None:
    assert LENIENCY.written_as_form({"ids": []}, {"schema": BODY}) == {"ids": ""}
    assert LENIENCY.read_form({"ids": [""]}, BODY) == {"ids": []}
    assert LENIENCY.read_texts({"ids": [""]}, BODY) == {"ids": [""]}
