"""Forms of both kinds."""

import email
import tracemalloc
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.errors import BadRequest
from web.request.forms import MAX_FIELDS, parse_multipart, parse_urlencoded, unquote

MULTIPART = "multipart/form-data; boundary=xyz"
TEXTS = st.text(st.characters(codec="utf-8"))


def multipart(*parts: tuple[str, str]) -> bytes:
    lines = [
        f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in parts
    ]
    return "".join([*lines, "--xyz--\r\n"]).encode()


def parse_by_urllib(raw: bytes) -> list[tuple[str, str]]:
    """The plain way, which is slow on many escapes."""
    return parse_qsl(raw.decode(), keep_blank_values=True, errors="strict")


def parse_by_email(raw: bytes) -> list[tuple[str, str]]:
    """The standard library's way, which is slow on many parts."""
    message: Any = email.message_from_bytes(f"Content-Type: {MULTIPART}\r\n\r\n".encode() + raw)
    return [
        (part.get_param("name", header="content-disposition"), part.get_payload(decode=True).decode())
        for part in message.get_payload()
    ]


@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS), min_size=1))
def test_urlencoded_agrees_with_urllib(pairs: list[tuple[str, str]]) -> None:
    raw = urlencode(pairs).encode()
    assert parse_urlencoded(raw) == parse_by_urllib(raw) == pairs


@given(
    st.lists(st.sampled_from([b"a", b"=", b"&", b"+", b"%41", b"%c3%a4", b"%2B", b"\n", b"\r", b" ", b"."]))
)
def test_odd_urlencoded_agrees_with_urllib(pieces: list[bytes]) -> None:
    raw = b"".join(pieces)
    assert parse_urlencoded(raw) == parse_by_urllib(raw)


@given(st.binary(max_size=50))
def test_unquote_undoes_escape_of_every_byte(raw: bytes) -> None:
    escaped = "".join(f"%{byte:02x}" for byte in raw).encode()
    try:
        expected = raw.decode()
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            unquote(escaped)
    else:
        assert unquote(escaped) == expected


FIELD_NAMES = st.text(st.sampled_from("abc_."), min_size=1)
LINES = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), max_size=20)


@given(st.lists(st.tuples(FIELD_NAMES, LINES), min_size=1, max_size=5))
def test_multipart_agrees_with_email_parser(pairs: list[tuple[str, str]]) -> None:
    raw = multipart(*pairs)
    assert parse_multipart(raw, MULTIPART)[0] == parse_by_email(raw) == pairs


@pytest.mark.parametrize(
    "raw", [b"name=%ff", b"name=\xff", b"name=100%", b"name=%4", b"&".join([b"a=1"] * 1001)]
)
def test_broken_urlencoded_form_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match=r"^Form parse error - "):
        parse_urlencoded(raw)


@pytest.mark.parametrize(
    ("raw", "content_type"),
    [
        (multipart(("name", "x")), "multipart/form-data"),
        (multipart(("name", "x"))[:-6], MULTIPART),
        (b"nothing of it", MULTIPART),
        (b"--xyz\r\n\r\nx\r\n--xyz--", MULTIPART),
        (b"--xyz\r\nContent-Disposition: form-data\r\n\r\nx\r\n--xyz--", MULTIPART),
        (b'--xyz\r\nContent-Disposition: form-data; name="name"\r\n\r\n\xff\r\n--xyz--', MULTIPART),
        (multipart(*[("name", "x")] * (MAX_FIELDS + 1)), MULTIPART),
    ],
)
def test_broken_multipart_form_is_refused(raw: bytes, content_type: str) -> None:
    with pytest.raises(BadRequest, match=r"^Multipart form parse error - "):
        parse_multipart(raw, content_type)


@pytest.mark.parametrize(
    "head",
    [
        "content-disposition:form-data;name=name",
        'Content-Type: text/plain\r\nContent-Disposition: form-data; filename="; name=count"; name="name"',
        'Content-Disposition: form-data; filename="a\\"b"; filename*=UTF-8\'\'a%22b; Name="name"\r\nX: y',
    ],
)
def test_part_name_stands_among_other_parameters(head: str) -> None:
    raw = f"--xyz\r\n{head}\r\n\r\nx\r\n--xyz--".encode()
    assert parse_multipart(raw, MULTIPART)[0] == [("name", "x")]


def test_backslash_in_part_name_is_no_escape() -> None:
    pairs = [("\\", "ignored"), ("name", "x")]
    assert parse_multipart(multipart(*pairs), 'multipart/form-data; boundary="xyz"') == (pairs, [])


def test_many_parts_take_little_memory() -> None:
    raw = b"\r\n--xyz" * 500_000
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest, match="too many fields"):
            parse_multipart(raw, MULTIPART)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(raw)
    finally:
        tracemalloc.stop()
