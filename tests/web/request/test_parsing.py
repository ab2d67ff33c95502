"""Three ways to write a body, one value; and what is refused before any field is looked at."""

import json
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.errors import ApiError
from web.fields import Boolean, Datetime, Integer, JsonValue, Line, ListOf, ObjectOf, Text
from web.request.parsing import MAX_FIELDS, MAX_VALUES, Body, parse_body, parse_items, parse_json

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=xyz"


class Inner(Body):
    config = JsonValue()


class Example(Body):
    name = Line()
    count = Integer(least=0, most=10, allow_none=True)
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


def test_json_and_both_forms_give_the_same_values() -> None:
    expected = {
        "name": "Ann & co",
        "count": 3,
        "on": True,
        "tags": ["a", "b"],
        "until": None,
        "note": "",
        "config": {"k": [1]},
    }
    as_json = (
        b'{"name": "Ann & co", "count": 3, "on": true, "tags": ["a", "b"], "until": null, "note": "",'
        b' "config": {"k": [1]}}'
    )
    as_form = b"name=Ann+%26+co&count=3&on=1&tags=a&tags=b&until=&note=&config=%7B%22k%22%3A+%5B1%5D%7D"
    as_multipart = multipart(
        ("name", "Ann & co"),
        ("count", "3"),
        ("on", "TRUE"),
        ("tags", "a"),
        ("tags", "b"),
        ("until", ""),
        ("note", ""),
        ("config", '{"k": [1]}'),
    )
    assert load(as_json, "Application/JSON; charset=utf-8") == expected
    assert load(as_form, FORM) == expected
    assert load(as_multipart, 'multipart/form-data; boundary="xyz"') == expected


def test_a_field_left_out_of_a_form_is_left_out() -> None:
    assert load(b"name=x", FORM) == {"name": "x"}
    assert load(multipart(), MULTIPART) == {}


@pytest.mark.parametrize("content_type", [JSON, FORM, MULTIPART, "", "text/plain"])
def test_an_empty_body_is_an_empty_object(content_type: str) -> None:
    assert load(b"", content_type) == {}


def test_unknown_fields_are_ignored_and_of_those_twice_in_a_form_the_last_counts() -> None:
    assert load(b'{"name": "b", "other": 1}', JSON) == {"name": "b"}
    assert load(b"name=a&other=1&name=b", FORM) == {"name": "b"}


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
def test_a_key_that_an_object_has_twice_is_refused_by_name(raw: bytes, key: str) -> None:
    assert refusal(raw, JSON) == (400, {"detail": f'JSON parse error - duplicate key "{key}"'})
    as_form = {"config": [f'JSON parse error - duplicate key "{key}"']}
    assert refusal(multipart(("config", raw.decode())), MULTIPART) == (400, as_form)


JSON_VALUES = st.recursive(
    st.text(st.sampled_from('a:{}[]"\\,')) | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a:"\\{')), inner),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_keys_that_look_alike_or_stand_in_several_objects_are_no_duplicates(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value


def test_the_object_of_a_body_has_no_more_fields_than_a_form() -> None:
    fields = {f"x{n}": n for n in range(MAX_FIELDS)}
    assert load(orjson.dumps(fields), JSON) == {}
    assert load(orjson.dumps({"config": {**fields, "name": "x"}}), JSON)
    detail = {"detail": "JSON parse error - too many fields"}
    assert refusal(orjson.dumps({**fields, "name": "x"}), JSON) == (400, detail)


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/xml", "application/json-patch+json"])
def test_other_media_types_are_unsupported(content_type: str) -> None:
    status, body = refusal(b"x", content_type)
    assert (status, body["detail"]) == (415, f'Unsupported media type "{content_type}" in request.')


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"nope",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e400}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b"[" * 10_000,
        b'{"a":' * 66 + b"1" + b"}" * 66,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_json_is_refused_with_its_reason(raw: bytes) -> None:
    status, body = refusal(raw, JSON)
    assert status == 400
    assert body["detail"].startswith("JSON parse error - ")


def test_nesting_is_counted_in_the_values_of_a_body() -> None:
    assert parse_body(b'{"config":' + b"[" * 64 + b"]" * 64 + b"}", JSON, SCHEMA)


@pytest.mark.parametrize(("raw", "kind"), [(b"[1]", "list"), (b'"x"', "str"), (b"null", "NoneType")])
def test_a_body_is_an_object(raw: bytes, kind: str) -> None:
    message = f"Invalid data. Expected a dictionary, but got {kind}."
    assert refusal(raw, JSON) == (400, {"non_field_errors": [message]})


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30])
def test_integers_of_any_size_are_read_exactly(number: int) -> None:
    assert parse_json(f'{{"a": {number}}}'.encode()) == {"a": number}


@pytest.mark.parametrize(
    ("raw", "content_type"),
    [
        (b"name=%ff", FORM),
        (b"name=\xff", FORM),
        (b"name=100%", FORM),
        (b"name=%4", FORM),
        (b"&".join([b"a=1"] * 1001), FORM),
        (multipart(("name", "x")), "multipart/form-data"),
        (multipart(("name", "x"))[:-6], MULTIPART),
        (b"nothing of it", MULTIPART),
        (b"--xyz\r\n\r\nx\r\n--xyz--", MULTIPART),
        (b"--xyz\r\nContent-Disposition: form-data\r\n\r\nx\r\n--xyz--", MULTIPART),
        (b'--xyz\r\nContent-Disposition: form-data; name="name"\r\n\r\n\xff\r\n--xyz--', MULTIPART),
        (multipart(*[("name", "x")] * 1001), MULTIPART),
    ],
)
def test_broken_forms_are_refused(raw: bytes, content_type: str) -> None:
    status, body = refusal(raw, content_type)
    assert status == 400
    assert "parse error" in body["detail"]


def test_json_that_is_broken_in_a_form_is_told_of_under_its_field() -> None:
    status, body = refusal(b"name=x&config={&several={}&several=[", FORM)
    assert (status, list(body), list(body["several"])) == (400, ["config", "several"], ["1"])
    assert body["config"][0].startswith("JSON parse error - ")
    assert body["several"]["1"][0].startswith("JSON parse error - ")


def test_a_blank_in_a_form_is_null_or_empties_a_list() -> None:
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


def test_json_in_forms_may_hold_no_more_values() -> None:
    values = "[" + "1," * (MAX_VALUES // 2) + "1]"
    assert load(multipart(("config", values)), MULTIPART)
    assert refusal(multipart(("config", values[:-1] + "," + values[1:])), MULTIPART)[0] == 413
    twice = [("several", f'{{"config": {values}}}')] * 2
    assert refusal(multipart(*twice), MULTIPART)[0] == 413


def test_signs_in_texts_are_no_values() -> None:
    text = ',[{"\\' * MAX_VALUES
    assert load(orjson.dumps({"note": text, "config": [text, {text: text}]}), JSON)["note"] == text


def test_of_json_that_is_repeated_in_a_form_only_the_last_is_read() -> None:
    assert load(b"config={&config=1", FORM) == {"config": 1}


@pytest.mark.parametrize(
    "head",
    [
        "content-disposition:form-data;name=name",
        'Content-Type: text/plain\r\nContent-Disposition: form-data; filename="; name=count"; name="name"',
        'Content-Disposition: form-data; filename="a\\"b"; filename*=UTF-8\'\'a%22b; Name="name"\r\nX: y',
    ],
)
def test_the_name_of_a_part_stands_among_other_things(head: str) -> None:
    assert load(f"--xyz\r\n{head}\r\n\r\nx\r\n--xyz--".encode(), MULTIPART) == {"name": "x"}


def test_a_backslash_in_the_name_of_a_part_is_no_escape() -> None:
    assert load(multipart(("\\", "ignored"), ("name", "x")), MULTIPART) == {"name": "x"}


@given(texts=st.dictionaries(st.sampled_from(["name", "note"]), st.text(st.characters(codec="utf-8"))))
def test_what_urllib_writes_as_a_form_is_read_as_it_was(texts: dict[str, str]) -> None:
    assert parse_body(urlencode(texts).encode(), FORM, SCHEMA) == texts


def accept(_: object) -> None:
    """Of a list, every item that fits the schema."""


def test_a_list_of_bodies_is_checked_item_by_item() -> None:
    assert parse_items(b'[{"count": 1}, {"count": "2"}]', JSON, SCHEMA, 2, accept) == (
        [{"count": 1}, {"count": 2}],
        True,
    )
    assert parse_items(b'{"count": 1}', JSON, SCHEMA, 2, accept) == ([{"count": 1}], False)
    assert parse_items(b"count=1&count=2", FORM, SCHEMA, 2, accept) == ([{"count": 2}], False)
    assert parse_items(b"[]", JSON, SCHEMA, 2, accept) == ([], True)


def test_what_is_wrong_in_a_list_of_bodies_stands_under_its_index() -> None:
    with pytest.raises(ApiError) as refused:
        parse_items(b'[{}, 7, {"count": 11}]', JSON, SCHEMA, 3, accept)
    assert refused.value.body == {
        "1": {"non_field_errors": ["Invalid data. Expected a dictionary, but got int."]},
        "2": {"count": ["Ensure this value is less than or equal to 10."]},
    }


def test_a_list_of_bodies_has_a_limit() -> None:
    with pytest.raises(ApiError) as refused:
        parse_items(b"[{}, {}, {}]", JSON, SCHEMA, 2, accept)
    assert refused.value.body == {"non_field_errors": ["Ensure this field has no more than 2 elements."]}
