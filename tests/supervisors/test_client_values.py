"""Values as clients write them: depth of JSON."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.client_values import (
    is_deeper_than,
    layers,
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
