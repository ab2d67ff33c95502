"""JSON from clients."""

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.client_values import MAX_DEPTH, OFF_LOOP_BYTES
from web.errors import BadRequest, TooLarge
from web.request.json_text import check_value_count, parse_json

JSON_VALUES = st.recursive(
    st.text(st.sampled_from('a:{}[]"\\,')) | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a:"\\{')), inner),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30])
def test_integers_of_any_size_are_exact(number: int) -> None:
    assert parse_json(f'{{"a": {number}}}'.encode()) == {"a": number}


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"name": "a", "name": "a"}', "name"),
        (b'{"name": "a", "other": ":", "n\\u0061me": "b"}', "name"),
        (b'{"config": [{"a": 1}, {"x": {"b": 1, "c": ":{", "b": "\\":"}}]}', "b"),
        (b'{"": 1, "a:": "\\\\", "": 2}', ""),
        (b'[{"a": 1}, {"a": 1, "a": 1}]', "a"),
    ],
)
def test_duplicate_key_is_refused_by_name(raw: bytes, key: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_json(raw)
    assert refused.value.body == {"detail": f'JSON parse error - duplicate key "{key}"'}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nope",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e400}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b"[" * 10_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\n"}',
        b"\xef\xbb\xbf{}",
        '"text"'.encode("utf-16"),
    ],
)
def test_text_that_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match=r"^JSON parse error - "):
        parse_json(raw)


@pytest.mark.parametrize(
    ("start", "end"), [(b'{"config":', b"}"), (b'[{"config":', b"}]")], ids=["a body", "a list of bodies"]
)
def test_depth_is_counted_in_values_of_bodies(start: bytes, end: bytes) -> None:
    deepest = start + b"[" * 64 + b"]" * 64 + end
    assert parse_json(deepest) == orjson.loads(deepest)
    with pytest.raises(BadRequest, match="nested deeper than 64 levels"):
        parse_json(start + b"[" * 65 + b"]" * 65 + end)


def test_too_many_values_are_refused_before_parsing() -> None:
    with pytest.raises(TooLarge):
        parse_json(b"[1,2,3", max_values=2)


LONG_ITEM = json.dumps({"text": "é" * OFF_LOOP_BYTES, "n": 10**30})


@given(st.lists(JSON_VALUES, max_size=4), st.sampled_from(["", " ", "\r\n\t "]))
def test_long_list_is_read_as_it_was_written(values: list[Any], blank: str) -> None:
    items = [LONG_ITEM, *map(json.dumps, values)]
    text = f"{blank}[{blank}{f'{blank},{blank}'.join(items)}{blank}]{blank}"
    assert parse_json(text.encode(), max_items=5) == [json.loads(LONG_ITEM), *values]
    assert parse_json(text.encode(), max_items=0) == [json.loads(LONG_ITEM)]
    assert parse_json(b"[" + b" " * OFF_LOOP_BYTES + b"]") == []


@pytest.mark.parametrize(
    "rest",
    [
        "",
        ",",
        ",]",
        " 1]",
        ",NaN]",
        ',"\\ud800"]',
        ',{"a":1,"a":2}]',
        "]]",
        "],1",
        "," + "[" * 10_000,
        ",[1}]",
    ],
)
def test_long_list_that_is_no_json_is_refused(rest: str) -> None:
    with pytest.raises(BadRequest):
        parse_json(f"[{LONG_ITEM}{rest}".encode(), max_items=9)


@pytest.mark.parametrize(("levels", "is_refused"), [(MAX_DEPTH + 1, False), (MAX_DEPTH + 2, True)])
def test_long_list_may_not_be_nested_deeper(levels: int, is_refused: bool) -> None:
    nested = '{"a":' * (levels - 1) + "[]" + "}" * (levels - 1)
    raw = f"[{LONG_ITEM},{nested}]".encode()
    if is_refused:
        with pytest.raises(BadRequest, match="nested deeper than 64 levels"):
            parse_json(raw, max_items=2)
    else:
        assert parse_json(raw, max_items=2)[1] == json.loads(nested)


TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[,\[{]')
SEPARATED_VALUES = st.recursive(
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


@given(value=SEPARATED_VALUES, max_values=st.integers(1, 20))
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
