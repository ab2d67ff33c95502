"""Storable JSON: the quick check, and the plain one layer by layer."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from marshmallow import ValidationError

from web.storable import check_json, check_layers

SCALARS = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers(-(2**66), 2**66)
    | st.sampled_from([-(2**63) - 1, -(2**63), 2**64 - 1, 2**64])
    | st.text(st.characters() | st.sampled_from('\0\ud800\\u0n"'))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner), max_leaves=10
)


def messages(check: Callable[[Any], object], value: Any) -> Any:
    """Return the messages with which the check refuses the value, none if it accepts it."""
    try:
        check(value)
    except ValidationError as error:
        return error.messages
    return []


@given(value=VALUES, levels=st.integers(0, 66))
def test_json_is_judged_as_layer_by_layer(value: Any, levels: int) -> None:
    for _ in range(levels):
        value = [value]
    assert messages(check_json, value) == messages(check_layers, value)
