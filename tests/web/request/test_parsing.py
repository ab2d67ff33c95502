"""Bodies and queries: from bytes, of any size and compression, to checked values."""

import asyncio
import gzip
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import ValidationError
from structlog.testing import capture_logs

from tests.processor_time import least_seconds
from tests.web.conftest import Api, Service, StartService
from web.errors import ApiError, Invalid, TooLarge
from web.fields import Boolean, Datetime, Integer, JsonValue, Line, ListOf, ObjectOf, Text
from web.request.forms import MAX_FIELDS
from web.request.json_text import MAX_VALUES
from web.request.parsing import Body, check_items, localize, parse_body
from web.routes import PUBLIC_BODY_BYTES

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=xyz"
AGENTS = "/api/cloud/agents/"
UNAUTHENTICATED = {"detail": "Authentication credentials were not provided."}
TOO_LARGE = (413, {"detail": "The request body is too large."})
IN_JSON = {"Content-Type": "application/json"}
COMPRESSIONS = (("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress))


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


async def test_body_has_maximum_size(start_service: StartService) -> None:
    api = await (await start_service(body_bytes=1024)).new_organization()
    answer = await api.request("POST", AGENTS, data=b'"' + b"x" * 1024 + b'"', headers=IN_JSON)
    assert (answer.status, answer.body) == TOO_LARGE
    for encoding, compress in COMPRESSIONS:
        for size, expected in ((1024, 201), (1025, 413)):
            data = compress(b'{"name": "n", "model": "m"}'.ljust(size))
            answer = await api.request(
                "POST", AGENTS, data=data, headers=IN_JSON | {"Content-Encoding": encoding}
            )
            assert answer.status == expected, (encoding, size)


async def test_decompression_bomb_is_not_unpacked(service: Service, api: Api) -> None:
    bomb = gzip.compress(b" " * 100_000_000)

    async def throw(client: Api, expected: object) -> None:
        headers = IN_JSON | {"Content-Encoding": "gzip"}
        answer = await client.request("POST", AGENTS, data=bomb, headers=headers)
        assert (answer.status, answer.body) == expected
        assert (await api.get("/healthz")).status == 200

    for client, expected in ((api, TOO_LARGE), (service.nobody, (401, UNAUTHENTICATED))):
        assert await least_seconds(partial(throw, client, expected)) < 0.1, "to unpack it takes longer"


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", b"no gzip at all"),
        ("deflate", b"nothing deflated"),
        ("gzip", gzip.compress(b"{}")[:-1]),
        ("deflate", zlib.compress(b"{}")[:-1]),
        ("gzip", gzip.compress(b"{}")[:12]),
        ("gzip", gzip.compress(b"{}") + b"more"),
    ],
    ids=["not gzip", "not deflate", "no end of gzip", "no end of deflate", "half a gzip", "more than gzip"],
)
async def test_broken_compression_is_bad_request(api: Api, encoding: str, data: bytes) -> None:
    answer = await api.request("POST", AGENTS, data=data, headers=IN_JSON | {"Content-Encoding": encoding})
    assert (answer.status, list(answer.body)) == (400, ["detail"])


@pytest.mark.parametrize(
    "body",
    [b'{"name":"n","model":"m"}', b"", b"{", b'{"name":"n"}', b" " * 1024, b" " * 1025, b'"' + b"x" * 1024],
    ids=["right", "empty", "broken", "incomplete", "blank", "too long", "too long and broken"],
)
async def test_body_is_read_alike_in_one_piece_or_several(start_service: StartService, body: bytes) -> None:
    service = await start_service(body_bytes=1024)
    api = await service.new_organization()
    length = f"Content-Length: {len(body)}"
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    answers = [
        await answer_to(service, api, length, body),
        await answer_to(service, api, length, body[:1], body[1:]),
        await answer_to(service, api, "Transfer-Encoding: chunked", chunks),
    ]
    assert answers[0] == answers[1] == answers[2]


async def answer_to(service: Service, api: Api, framing: str, *pieces: bytes) -> tuple[int, object]:
    """Return status and refusal of a POST whose body arrives in these pieces, the first with the head."""
    reader, writer = await asyncio.open_connection(*service.address)
    head = f"POST {AGENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\n{framing}\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + pieces[0])
    for piece in pieces[1:]:
        await api.get("/healthz")  # the first piece has arrived
        writer.write(piece)
    status = int((await reader.readline()).split()[1])
    fields = await reader.readuntil(b"\r\n\r\n")
    size = int(fields.lower().partition(b"content-length: ")[2].split()[0])
    answer = orjson.loads(await reader.readexactly(size))
    writer.close()
    return status, answer if status >= 300 else None


async def test_unknown_encoding_is_unsupported(api: Api) -> None:
    for encoding in ("br", "zstd", "wizard", "gzip, gzip"):
        headers = IN_JSON | {"Content-Encoding": encoding}
        answer = await api.request("POST", AGENTS, data=b"{}", headers=headers)
        detail = f'Unsupported content encoding "{encoding}" in request.'
        assert (answer.status, answer.body) == (415, {"detail": detail})


@pytest.mark.parametrize("rest", [b"", b"zz\r\n\r\n"], ids=["nothing", "what is no chunk"])
async def test_unfinished_body_times_out(start_service: StartService, rest: bytes) -> None:
    service = await start_service(body_seconds=0.1)
    api = await service.new_organization()
    head = f"POST {AGENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\n"
    reader, writer = await asyncio.open_connection(*service.address)
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n".encode())
    await writer.drain()
    await api.get("/healthz")
    writer.write(rest)
    answer = await reader.readuntil(b"}")
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b'{"detail":"The request body did not arrive within 0.1 seconds."}')


async def test_client_that_disconnects_mid_body_logs_no_error(service: Service, api: Api) -> None:
    head = f"POST {AGENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\nContent-Length: 9"
    with capture_logs() as logged:
        _, writer = await asyncio.open_connection(*service.address)
        writer.write(f"{head}\r\n\r\n{{".encode())
        await writer.drain()
        await api.get(AGENTS)
        writer.close()
        await writer.wait_closed()
        await api.get(AGENTS)
    assert logged == []


async def send_head(service: Service, *headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send the head of a POST, and return the connection."""
    reader, writer = await asyncio.open_connection(*service.address)
    head = "\r\n".join((f"POST {AGENTS} HTTP/1.1", "Host: x", "Content-Type: application/json", *headers))
    writer.write(f"{head}\r\n\r\n".encode())
    await writer.drain()
    return reader, writer


async def test_permission_to_send_body_comes_after_authentication(service: Service, api: Api) -> None:
    expect = ("Content-Length: 26", "Expect: 100-Continue")
    reader, writer = await send_head(service, *expect)
    assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    writer.close()
    reader, writer = await send_head(service, f"Authorization: {api.authorization}", *expect)
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b'{"name":"n", "model": "m"}')
    assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
    writer.close()


async def test_body_that_announces_too_much_is_refused_unread(service: Service, api: Api) -> None:
    head = (f"Authorization: {api.authorization}", "Content-Length: 1048577", "Expect: 100-continue")
    reader, writer = await send_head(service, *head)
    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_body_that_trickles_times_out_as_a_whole(start_service: StartService) -> None:
    service = await start_service(body_seconds=0.3)
    api = await service.new_organization()
    for length in ("Transfer-Encoding: chunked", "Content-Length: 10000"):
        reader, writer = await send_head(service, f"Authorization: {api.authorization}", length)
        answered = asyncio.create_task(reader.readline())
        for _ in range(50):
            writer.write(b"1\r\nx\r\n")
            done, _ = await asyncio.wait({answered}, timeout=0.03)
            if done:
                break
        assert (await answered).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def test_body_without_credentials_must_be_short(service: Service) -> None:
    for size, expected in ((PUBLIC_BODY_BYTES, 400), (PUBLIC_BODY_BYTES + 1, 413)):
        login = "/api/organizations/auth/login/"
        answer = await service.nobody.request("POST", login, data=b" " * size, headers=IN_JSON)
        assert answer.status == expected


@pytest.mark.parametrize(("size", "expected"), [(16, 400), (2_048, 413)])
async def test_many_small_chunks_without_credentials_are_refused(
    service: Service, size: int, expected: int
) -> None:
    """A long body is refused either way; the connection of one in small chunks ends without reading it."""
    chunks = (b"%x\r\n%b\r\n" % (size, b" " * size)) * (PUBLIC_BODY_BYTES // size + 2_000)
    head = b"POST /api/organizations/auth/login/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    reader, writer = await asyncio.open_connection(*service.address)
    writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    answer = await reader.read(65_536)
    assert answer.startswith(b"HTTP/1.1 %d " % expected)
    assert (b"Connection: close" in answer) is (expected == 400)
    writer.close()


@pytest.mark.parametrize(
    ("chunks", "size", "expected"), [(999, 1, 201), (1_001, 1, 400), (3_000, 256, 201), (3_000, 255, 400)]
)
async def test_chunks_of_callers_may_be_many_or_small(
    service: Service, api: Api, chunks: int, size: int, expected: int
) -> None:
    body = b'{"name":"n","model":"m"}'
    padded = body.ljust(chunks * size)
    pieces = (padded[start : start + size] for start in range(0, len(padded), size))
    sent = b"".join(b"%x\r\n%b\r\n" % (size, piece) for piece in pieces) + b"0\r\n\r\n"
    status, answer = await answer_to(service, api, "Transfer-Encoding: chunked", sent)
    assert status == expected, answer


@pytest.mark.parametrize("parameters", [";" * 8_000, ";a" * 3_500, "(" * 8_000])
async def test_parameters_of_content_type_cost_nothing(service: Service, parameters: str) -> None:
    headers = {"Content-Type": "text/x" + parameters}

    async def log_in() -> None:
        path = "/api/organizations/auth/login/"
        answer = await service.nobody.request("POST", path, data=b"{}", headers=headers)
        assert answer.status == 415

    assert await least_seconds(log_in) < 0.1, "to parse them takes longer"
