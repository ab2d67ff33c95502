"""Bodies and queries: from bytes to checked values."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import ValidationError

from web.errors import ApiError, Invalid, TooLarge
from web.fields import Boolean, Datetime, Integer, JsonValue, Line, ListOf, ObjectOf, Text
from web.request.forms import MAX_FIELDS
from web.request.json_text import MAX_VALUES
from web.request.parsing import Body, check_items, localize, parse_body

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=xyz"


class Inner(Body):
    config = JsonValue()


class Example(Body):
    name = Line()
    count = Integer(min_value=0, max_value=10, allow_none=True)
    on = Boolean()
    tags = ListOf(Line())
    until = Datetime(allow_none=True)
    note = Text(allow_none=True)
    config = JsonValue()
    free = JsonValue(allow_none=True)
    several = ListOf(ObjectOf(Inner))


SCHEMA = Example()


def multipart(*parts: tuple[str, str]) -> bytes:
    lines = [
        f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in parts
    ]
    return "".join([*lines, "--xyz--\r\n"]).encode()


def load(raw: bytes, content_type: str) -> Any:
    return SCHEMA.checked(parse_body(raw, content_type, SCHEMA))


def refusal(raw: bytes, content_type: str) -> tuple[int, Any]:
    with pytest.raises(ApiError) as refused:
        parse_body(raw, content_type, SCHEMA)
    return refused.value.status, refused.value.body


def test_media_type_is_read_without_case_and_parameters() -> None:
    assert load(b'{"name": "x"}', "Application/JSON; charset=utf-8") == {"name": "x"}


def test_field_missing_from_form_is_missing() -> None:
    assert load(b"name=x", FORM) == {"name": "x"}
    assert load(multipart(), MULTIPART) == {}


def test_json_body_has_maximum_number_of_fields() -> None:
    fields = {f"x{n}": n for n in range(MAX_FIELDS)}
    assert load(orjson.dumps(fields), JSON) == {}
    assert load(orjson.dumps({"config": {**fields, "name": "x"}}), JSON)
    detail = {"detail": "JSON parse error - too many fields"}
    assert refusal(orjson.dumps({**fields, "name": "x"}), JSON) == (400, detail)


def test_broken_json_in_form_is_reported_under_its_field() -> None:
    status, body = refusal(b"name=x&config={&several={}&several=[", FORM)
    assert (status, list(body), list(body["several"])) == (400, ["config", "several"], ["1"])
    assert body["config"][0].startswith("JSON parse error - ")
    assert body["several"]["1"][0].startswith("JSON parse error - ")


def test_blank_in_form_is_null_or_empty_list() -> None:
    blank: dict[str, Any] = {
        "tags": [],
        "several": [],
        "free": None,
        "until": None,
        "count": None,
        "note": "",
    }
    assert load(b"tags=&several=&free=&until=&count=&note=", FORM) == blank
    assert load(multipart(*[(name, "") for name in blank]), MULTIPART) == blank
    assert load(b"tags=a&tags=", FORM) == {"tags": ["a", ""]}
    assert list(refusal(b"config=", FORM)[1]) == ["config"]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"config": [' + b"1," * MAX_VALUES + b"1]}",
        b'{"config": ' + b"[" * MAX_VALUES + b"]" * MAX_VALUES + b"}",
        b'{"config": [' + b"{}," * MAX_VALUES + b"{}]}",
        b"{" + b",".join([b'"a": "\\""'] * (MAX_VALUES + 1)) + b"}",
        b"[" + b'"",' * 3 * MAX_VALUES + b'""]',
    ],
)
def test_json_of_too_many_values_is_too_large(raw: bytes) -> None:
    assert refusal(raw, JSON) == (413, {"detail": f"The request body holds more than {MAX_VALUES} values."})


def test_json_in_form_has_same_limit_of_values() -> None:
    values = "[" + "1," * (MAX_VALUES // 2) + "1]"
    assert load(multipart(("config", values)), MULTIPART)
    assert refusal(multipart(("config", values[:-1] + "," + values[1:])), MULTIPART)[0] == 413
    twice = [("several", f'{{"config": {values}}}')] * 2
    assert refusal(multipart(*twice), MULTIPART)[0] == 413


def test_repeated_json_in_form_is_read_once() -> None:
    assert load(b"config={&config=1", FORM) == {"config": 1}


def read_items(raw: bytes, content_type: str, max_items: int) -> tuple[list[dict[str, Any]], bool]:
    values = parse_body(raw, content_type, SCHEMA, max_items=max_items)
    return check_items(values, SCHEMA, max_items, lambda item: None)


def test_list_of_bodies_is_checked_item_by_item() -> None:
    assert read_items(b'[{"count": 1}, {"count": "2"}]', JSON, 2) == (
        [{"count": 1}, {"count": 2}],
        True,
    )
    assert read_items(b'{"count": 1}', JSON, 2) == ([{"count": 1}], False)
    assert read_items(b"count=1&count=2", FORM, 2) == ([{"count": 2}], False)
    assert read_items(b"[]", JSON, 2) == ([], True)


def test_form_is_limited_by_its_length_as_json() -> None:
    raw = b"name=" + b"%01" * 10
    assert parse_body(raw, FORM, SCHEMA, len('{"name":""}') + 60)["name"] == "\x01" * 10
    with pytest.raises(TooLarge, match="more than 70 bytes as JSON"):
        parse_body(raw, FORM, SCHEMA, 70)


class Strict(Body):
    name = Line(required=True, max_length=3)
    count = Integer(min_value=0, max_value=10, load_default=5)
    tags = ListOf(Line(), load_default=list)
    inner = ObjectOf(Inner, allow_none=True)


STRICT = Strict()
STRICT_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a", " b ", "long", 7, None, []]),
        "count": st.sampled_from([0, "3", 11, 1.5, None]),
        "tags": st.sampled_from([[], ["a"], ["a", None], "a"]),
        "inner": st.sampled_from([None, {}, {"config": 1, "other": 2}, []]),
        "other": st.integers(),
    },
)


@given(values=STRICT_VALUES, partial=st.booleans())
def test_checked_agrees_with_load_of_marshmallow(values: dict[str, Any], partial: bool) -> None:
    assert outcome(lambda: STRICT.checked(values, partial=partial)) == outcome(
        lambda: STRICT.load(values, partial=partial)
    )


def outcome(check: Callable[[], Any]) -> Any:
    """The checked values, or the messages."""
    try:
        return check()
    except ValidationError as error:
        return error.messages


VIENNA = ZoneInfo("Europe/Vienna")


def test_only_named_times_without_offset_are_converted() -> None:
    local = datetime(2026, 7, 1, 12)  # noqa: DTZ001
    instant = datetime(2026, 7, 1, 12, tzinfo=UTC)
    body: dict[str, Any] = {"start": local, "end": instant, "other": local, "none": None}
    localize(body, ("start", "end", "none", "missing"), VIENNA)
    assert body == {
        "start": datetime(2026, 7, 1, 10, tzinfo=UTC),
        "end": instant,
        "other": local,
        "none": None,
    }


def test_time_that_leaves_calendar_is_refused_by_field() -> None:
    with pytest.raises(Invalid) as refused:
        localize({"start": datetime(1, 1, 1)}, ("start",), VIENNA)  # noqa: DTZ001
    assert refused.value.body == {"start": ["Datetime value out of range."]}
