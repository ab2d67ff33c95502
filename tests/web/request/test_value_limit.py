"""The maximum number of values in JSON, against a plain count."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.errors import TooLarge
from web.request.value_limit import check_value_count

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[,\[{]')
JSON_VALUES = st.recursive(
    st.text(st.sampled_from('a,[{"\\')) | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a,"\\{')), inner),
    max_leaves=20,
)


def count_separators(raw: bytes) -> int:
    """The plain way: one token after the other."""
    return sum(not token.startswith(b'"') for token in TOKEN.findall(raw))


def is_refused(raw: bytes, max_values: int) -> bool:
    try:
        check_value_count(raw, max_values)
    except TooLarge:
        return True
    return False


@given(value=JSON_VALUES, max_values=st.integers(1, 20))
def test_limit_agrees_with_count_of_tokens(value: Any, max_values: int) -> None:
    raw = json.dumps(value).encode()
    assert is_refused(raw, max_values) == (count_separators(raw) > max_values)


@pytest.mark.parametrize(
    "raw", [b"[" * 100, b"{}," * 100, b'"",' * 100, b'"' * 1000 + b"," * 100, b'{"a": "\\""},' * 100]
)
def test_broken_json_is_refused_as_well(raw: bytes) -> None:
    assert is_refused(raw, 99)


def test_separators_in_long_text_are_not_values() -> None:
    assert not is_refused(json.dumps([',[{"\\' * 1000]).encode(), 3)
