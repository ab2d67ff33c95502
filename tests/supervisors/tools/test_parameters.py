"""Parameters of adapter tools in the form that models get."""

from typing import Any

import pytest

from supervisors.tools.parameters import for_models, may_take_arguments

OPEN = {"type": "object", "properties": {}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
EITHER = {"anyOf": [CITY, OPEN]}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (CITY, CITY),
        ({}, OPEN),
        ({"type": "object"}, OPEN),
        ({"type": ["object", "null"]}, OPEN),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": True}}),
        ({"title": "T"}, {"title": "T", **OPEN}),
    ],
)
def test_schema_for_models_is_always_an_object_schema(
    parameters: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert for_models("Looks.", parameters, is_schema=True) == ("Looks.", expected)


@pytest.mark.parametrize(
    ("parameters", "is_schema", "words"),
    [
        (EITHER, True, '{"anyOf":[{"type":"object","properties":{"city":{"type":"string"}},"required"'),
        ({"type": "objekt"}, False, '{"type":"objekt"}'),
        (["city", "when"], False, '["city","when"]'),
        ("city: where to look", False, "city: where to look"),
        (False, False, "false"),
        (7, False, "7"),
    ],
)
def test_parameters_that_providers_refuse_become_description(
    parameters: Any, is_schema: bool, words: str
) -> None:
    description, schema = for_models("Looks.", parameters, is_schema=is_schema)
    assert description.startswith(f"Looks.\n\nIt takes: {words}")
    assert schema == OPEN


def test_missing_parameters_add_nothing_to_the_description() -> None:
    assert for_models("", None, is_schema=False) == ("", OPEN)
    assert for_models("", "anything", is_schema=False) == ("It takes: anything", OPEN)


def test_only_an_object_schema_may_take_arguments() -> None:
    satisfiable: list[Any] = [CITY, {}, {"title": "T"}, {"type": ["null", "object"]}, EITHER]
    unsatisfiable: list[Any] = [
        {"type": "string"},
        {"type": ["null"]},
        {"type": 7},
        [],
        "object",
        None,
        True,
        1,
    ]
    assert [schema for schema in satisfiable if not may_take_arguments(schema)] == []
    assert [schema for schema in unsatisfiable if may_take_arguments(schema)] == []
