"""Values as clients write them: depth of JSON, and scalars."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.client_values import (
    is_deeper_than,
    layers,
    parse_boolean,
    parse_integer,
    parse_number,
    parse_text,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=15,
)


def depth_of(value: Any) -> int:
    """Count the levels of nesting, with a call for each level."""
    match value:
        case list():
            return 1 + max(map(depth_of, value), default=0)
        case dict():
            return 1 + max(map(depth_of, value.values()), default=0)
        case _:
            return 0


@given(JSON_VALUES)
def test_depth_agrees_with_recursive_count(value: Any) -> None:
    depth = depth_of(value)
    assert not is_deeper_than(depth, value)
    assert depth == 0 or is_deeper_than(depth - 1, value)


def test_depth_of_long_chain_needs_no_recursion() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert is_deeper_than(99_999, value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, [[7]]), ([], [[[]], []]), ({"a": [1]}, [[{"a": [1]}], ["a", [1]], [1]])],
)
def test_layers_hold_keys_and_values_of_one_depth(value: Any, expected: list[Any]) -> None:
    assert list(layers(value)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((True, 1, "1", "true", "TRUE"), True),
        ((False, 0, "0", "false", "False"), False),
        ((None, 2, -1, 1.0, "", "yes", " true", [], {}), None),
    ],
)
def test_boolean_has_these_spellings(values: tuple[object, ...], expected: bool | None) -> None:
    assert [parse_boolean(value) for value in values] == [expected] * len(values)


@pytest.mark.parametrize(("value", "expected"), [(5, 5), ("-7", -7), (" 8 ", 8), (3.0, 3), (2**70, 2**70)])
def test_integer_is_number_or_ascii_digits(value: object, expected: int) -> None:
    assert parse_integer(value) == expected


@pytest.mark.parametrize(
    "value",
    [None, True, 3.7, float("inf"), float("nan"), "", "1_000", "\uff13", "1.0", "+1", "\t1", "9" * 1001, []],
)
def test_integer_refuses_everything_else(value: object) -> None:
    assert parse_integer(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (0.1, "0.1"), (1e-6, "0.000001"), (" 12.50 ", "12.50"), ("-3", "-3"), (2**70, str(2**70))],
)
def test_number_keeps_its_digits(value: object, expected: str) -> None:
    assert parse_number(value) == Decimal(expected)


@pytest.mark.parametrize(
    "value", [None, True, float("nan"), float("-inf"), "", "1e3", ".5", "1.", "9" * 21, "\uff13", {}]
)
def test_number_refuses_everything_else(value: object) -> None:
    assert parse_number(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(" a ", " a "), (7, "7"), (1.5, "1.5"), (True, None), (None, None), ([], None), ({}, None)],
)
def test_text_takes_numbers_as_their_digits(value: object, expected: str | None) -> None:
    assert parse_text(value) == expected
