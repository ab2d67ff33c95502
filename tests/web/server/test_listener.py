"""Malformed HTTP, crashes, expectations and disconnects on the listening socket."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests.web.conftest import Service
from web.json import json_response
from web.server.listener import serving

SECRET = b"hsk_abcdefgh_" + b"s" * 43
GOOD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
NOT_UNDERSTOOD = {"detail": "The request is not valid HTTP."}

Address = tuple[str, int]


def small_app() -> web.Application:
    """Return an application that answers `/healthz`."""

    async def is_alive(_: web.Request) -> web.Response:
        return json_response({"status": "ok"})

    app = web.Application()
    app.router.add_get("/healthz", is_alive)
    return app


@pytest.fixture
async def address() -> AsyncIterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(small_app(), listener):
            yield listener.getsockname()


async def answer(address: Address, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (their names in lower case) and body."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    pairs = (line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers["content-length"]))
    writer.close()
    await writer.wait_closed()
    return int(head[0].split()[1]), headers, body


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x00\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"BREW /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 500 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + SECRET + b"\x01\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization Bearer " + SECRET + b"\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    ],
    ids=lambda request_bytes: repr(request_bytes[:30]),
)
async def test_malformed_http_is_refused_in_json_without_repeating_it(
    address: Address, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with capture_logs() as logged, caplog.at_level(logging.DEBUG):
        status, headers, body = await answer(address, request_bytes)
    assert (status, json.loads(body)) == (400, NOT_UNDERSTOOD)
    assert headers["content-type"] == "application/json"
    assert [line["request_id"] for line in logged] == [headers["x-request-id"]]
    assert SECRET.decode() not in caplog.text + str(logged)


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (
            b"\x16\x03\x01\x00\r\n\r\n",
            "it does not begin with a known method; perhaps the client expects TLS",
        ),
        (b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n", "the address in the first line is invalid"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", "a line of the head is too long"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n", "the first line or a header is invalid"),
    ],
    ids=["method", "address", "length", "header"],
)
async def test_malformed_request_is_logged_in_words(
    address: Address, request_bytes: bytes, reason: str
) -> None:
    with capture_logs() as logged:
        await answer(address, request_bytes)
    assert [line["reason"] for line in logged] == [reason]


async def test_crash_of_application_reveals_only_its_request_id(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: web.Request) -> web.Response:
        raise RuntimeError("a secret")

    app = web.Application()
    app.router.add_get("/", fail)
    with socket.create_server(("127.0.0.1", 0)) as listener, capture_logs() as logged:
        async with serving(app, listener):
            status, headers, body = await answer(
                listener.getsockname(), b"GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n"
            )
    expected = {"detail": "Internal server error.", "request_id": headers["x-request-id"]}
    assert (status, json.loads(body)) == (500, expected)
    assert [(line["event"], line["log_level"]) for line in logged] == [("request failed", "error")]
    assert caplog.records == []  # the framework says nothing about it


async def test_socket_stays_open_for_next_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(2):
            async with serving(small_app(), listener):
                status, _, _ = await answer(listener.getsockname(), GOOD)
                assert status == 200


AGENTS = "/api/cloud/agents/"


async def test_unknown_expectation_is_refused_in_json(service: Service) -> None:
    headers = {"Expect": "wizardry", "X-Request-ID": "mine"}
    for method, path in (("GET", "/healthz"), ("PUT", "/healthz"), ("GET", "/nowhere/"), ("GET", AGENTS)):
        answer = await service.nobody.request(method, path, headers=headers)
        assert (answer.status, answer.body) == (417, {"detail": "Expectation Failed."})
        assert answer.headers["X-Request-ID"] == "mine"
