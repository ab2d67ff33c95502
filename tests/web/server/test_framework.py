"""The parts of aiohttp's inside: the version is known, and answers are those of aiohttp itself."""

import asyncio
import re
import socket
from collections.abc import Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.test_utils import make_mocked_request

from web.server import framework
from web.server.listener import serving

JSON = {"Content-Type": "application/json"}
DATE = re.compile(rb"\r\nDate: [^\r]+")
END = b"GET /json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
COMPRESSING = b"Accept-Encoding: gzip\r\n"


def with_cookie() -> web.Response:
    answer = web.Response(body=b"{}", headers=JSON)
    answer.set_cookie("name", "value")
    return answer


def compressed() -> web.Response:
    answer = web.Response(body=b"{}" * 2000, headers=JSON)
    answer.enable_compression()
    return answer


def chunked() -> web.Response:
    answer = web.Response(body=b"{}", headers=JSON)
    answer.enable_chunked_encoding()
    return answer


def closing() -> web.Response:
    answer = web.Response(body=b"{}", headers=JSON)
    answer.force_close()
    return answer


def with_lists() -> web.Response:
    answer = web.Response(body=b"[]", headers={**JSON, "X-Ignored": "\u00fc", "Retry-After": "1"})
    answer.headers.add("Link", "<a>")
    answer.headers.add("Link", "<b>")
    return answer


# By their path. Those of `ORDINARY` are written in one piece.
ORDINARY: dict[str, Callable[[], web.Response]] = {
    "/json": lambda: web.Response(body=b'{"a":1}', headers=JSON),
    "/long": lambda: web.Response(body=b"x" * 3_000_000, headers=JSON),
    "/created": lambda: web.Response(body=b"{}", status=201, headers=JSON),
    "/refused": lambda: web.Response(body=b"{}", status=429, headers={**JSON, "Retry-After": "1"}),
    "/strange": lambda: web.Response(body=b"{}", status=499, headers=JSON),
    "/lists": with_lists,
    "/text": lambda: web.Response(text="text"),
}
OTHERS: dict[str, Callable[[], web.Response]] = {
    "/empty": lambda: web.Response(headers=JSON),
    "/blank": lambda: web.Response(body=b"", headers=JSON),
    "/deleted": lambda: web.Response(status=204),
    "/unchanged": lambda: web.Response(status=304, headers=JSON),
    "/moved": lambda: web.Response(status=308, headers={"Location": "/json"}),
    "/untyped": lambda: web.Response(body=b"untyped"),
    "/cached": lambda: web.Response(body=b"{}", headers={**JSON, "Cache-Control": "no-cache"}),
    "/dated": lambda: web.Response(body=b"{}", headers={**JSON, "Date": "today", "Server": "ours"}),
    "/lower": lambda: web.Response(body=b"{}", headers={"content-type": "application/json"}),
    "/cookie": with_cookie,
    "/compressed": compressed,
    "/chunked": chunked,
    "/closing": closing,
    "/mutable": lambda: web.Response(body=bytearray(b"{}"), headers=JSON),
}


async def answer(request: web.Request) -> web.Response:
    if request.method == "POST":
        return web.Response(text=f"{len(await request.read())} bytes")
    return {**ORDINARY, **OTHERS}[request.path]()


async def sent(requests: bytes) -> bytes:
    """Return all that the server sends for requests of one connection, without dates."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(app, listener), asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(requests)
            received = await reader.read()
            writer.close()
    return DATE.sub(b"", received)


def test_aiohttp_is_the_version_whose_inside_is_known() -> None:
    assert aiohttp.__version__ == framework.VERSION


def test_framework_has_the_attributes_that_are_used() -> None:
    slots = {name for kind in web.RequestHandler.__mro__ for name in getattr(kind, "__slots__", ())}
    assert slots >= {
        *("_current_request", "_logging_enabled", "_loop", "_messages", "_next_keepalive_close_time"),
        *("_paused", "_request_count", "_request_handler", "_task_handler", "_upgraded", "_waiter"),
        "_reading_paused",
    }
    request, plain = make_mocked_request("GET", "/"), web.Response()
    assert {"_message", "_payload", "_match_info"} <= set(dir(request))
    assert request._read_bytes is None
    assert {"_status", "_reason", "_headers", "_body", "_eof_sent", "_body_length"} <= set(dir(plain))
    assert (plain._keep_alive, plain._chunked, plain._compression, plain._cookies) == (
        None,
        False,
        False,
        None,
    )
    assert isinstance(EMPTY_PAYLOAD, StreamReader)


@pytest.mark.parametrize("path", [*ORDINARY, *OTHERS])
async def test_answers_are_those_that_the_framework_would_write(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [
        f"{method} {path} HTTP/{version}\r\nHost: x\r\n{header}\r\n".encode() + end
        for method in ("GET", "HEAD", "POST", "OPTIONS")
        for version, header, end in (
            ("1.1", "", END),
            ("1.1", "Connection: close\r\n", b""),
            ("1.1", "Accept-Encoding: gzip\r\n", END),
            ("1.0", "", b""),
            ("1.0", "Connection: keep-alive\r\n", END),
        )
    ]
    if path == "/chunked":  # forbidden for HTTP/1.0
        requests = [request for request in requests if b"HTTP/1.1" in request]
    ours = [await sent(request) for request in requests]
    monkeypatch.setattr(framework, "whole_answer", lambda *_: None)
    assert ours == [await sent(request) for request in requests]


@pytest.mark.parametrize("path", [*ORDINARY, *OTHERS])
def test_only_ordinary_answers_are_written_in_one_piece(path: str) -> None:
    request = make_mocked_request("GET", path, payload=EMPTY_PAYLOAD)
    data = framework.whole_answer(request, {**ORDINARY, **OTHERS}[path](), framework.EndOfHead({}))
    assert (data is not None) == (path in ORDINARY)


async def test_header_with_control_characters_is_never_sent() -> None:
    request = make_mocked_request("GET", "/", payload=EMPTY_PAYLOAD)
    forged = web.Response(body=b"{}", headers={**JSON, "X-Ignored": "a\r\nSet-Cookie: b"})
    with pytest.raises(ValueError, match="header injection"):
        framework.whole_answer(request, forged, framework.EndOfHead({}))


async def test_bodies_that_pause_the_reading_are_read_whole() -> None:
    lengths = 5, 700_000, 0, 300_000, 7
    heads = [f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n" for length in lengths]
    heads[-1] += "Connection: close\r\n"
    pairs = zip(heads, lengths, strict=True)
    received = await sent("".join(f"{head}\r\n{'a' * length}" for head, length in pairs).encode())

    assert re.findall(rb"(\d+) bytes", received) == [str(length).encode() for length in lengths]
