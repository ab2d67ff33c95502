"""Who may connect, and malformed HTTP, crashes, expectations and disconnects on the listening socket."""

import asyncio
import json
import logging
import os
import resource
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_network

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests.web.conftest import Service
from tests.web.server.clients import GET, small_server
from web.json import json_response
from web.server.listener import OPERATOR_PLACES, serving
from web.settings import ConnectionSettings

SECRET = b"hsk_abcdefgh_" + b"s" * 43
GOOD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
NOT_UNDERSTOOD = {"detail": "The request is not valid HTTP."}

Address = tuple[str, int]
AGENTS = "/api/cloud/agents/"
EIGHT = ConnectionSettings(max_connections=8)
SLOW = GET.replace(b"/healthz", b"/slow")
SLOW_BODY = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nxx"
SLOW_STATUS = GET.replace(b"/healthz", b"/status/slow/")


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


async def test_unknown_expectation_is_refused_in_json(service: Service) -> None:
    headers = {"Expect": "wizardry", "X-Request-ID": "mine"}
    for method, path in (("GET", "/healthz"), ("PUT", "/healthz"), ("GET", "/nowhere/"), ("GET", AGENTS)):
        answer = await service.nobody.request(method, path, headers=headers)
        assert (answer.status, answer.body) == (417, {"detail": "Expectation Failed."})
        assert answer.headers["X-Request-ID"] == "mine"


async def test_address_has_half_of_all_connections() -> None:
    async with small_server(EIGHT) as server:
        first = await server.connect("127.0.0.2", GET)
        await first.answer()
        for _ in range(3):
            await server.connect("127.0.0.2")
        fifth = await server.connect("127.0.0.2", GET)
        refused = await fifth.answer()
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert refused.body == {"detail": "Your address has too many open connections."}
        assert await fifth.end() == b""
        assert (await (await server.connect("127.0.0.3", GET)).answer()).status == 200
        first.writer.close()
        await first.end()
        await first.writer.wait_closed()
        assert (await (await server.connect("127.0.0.3", GET)).answer()).status == 200
        assert (await (await server.connect("127.0.0.2", GET)).answer()).status == 200


async def test_two_sockets_have_one_limit_together() -> None:
    with socket.create_server(("127.0.0.1", 0)) as private:
        async with small_server(EIGHT, private) as server:
            public = server.address
            for address in (public, private.getsockname()) * 2:
                server.address = address
                assert (await (await server.connect("127.0.0.2", GET)).answer()).status == 200
            for address in (public, private.getsockname()):
                server.address = address
                assert (await (await server.connect("127.0.0.2", GET)).answer()).status == 429


async def test_trusted_proxy_may_have_all_connections() -> None:
    trusted = ConnectionSettings(max_connections=8, trusted_proxies=(ip_network("127.0.0.2/32"),))
    async with small_server(trusted) as server:
        for _ in range(8):
            assert (await (await server.connect("127.0.0.2", GET)).answer()).status == 200


async def test_lost_client_keeps_its_place_until_its_request_is_over() -> None:
    async with small_server(EIGHT) as server:
        lost = [await server.connect("127.0.0.2", SLOW) for _ in range(4)]
        await server.wait_for_slow_requests(4)
        for client in lost:
            client.writer.close()
            await client.writer.wait_closed()
        assert (await (await server.connect("127.0.0.3", GET)).answer()).status == 200
        assert (await (await server.connect("127.0.0.2", GET)).answer()).status == 429
        server.release.set()
        while (await (await server.connect("127.0.0.2", GET)).answer()).status != 200:
            pass


async def test_connections_without_request_make_room_for_new_ones() -> None:
    async with small_server(EIGHT) as server:
        used = await server.connect("127.0.0.2", GET)
        await used.answer()
        with capture_logs() as logged:
            idle = [await server.connect(f"127.0.1.{number}", GET[:10]) for number in range(7)]
            for number in range(20):
                client = await server.connect(f"127.0.2.{number}", GET)
                assert (await client.answer()).status == 200
        for each in idle:
            assert await each.end() == b""
    assert [line["log_level"] for line in logged] == ["warning"]
    assert "server.max_connections" in logged[0]["event"]


async def test_slow_bodies_make_room_after_idle_connections() -> None:
    async with small_server(EIGHT) as server:
        idle = await server.connect("127.0.0.2", GET)
        await idle.answer()
        slow = [await server.connect(f"127.0.1.{number}", SLOW_BODY) for number in range(7)]
        first, second = await server.connect("127.0.2.1", SLOW), await server.connect("127.0.2.2", SLOW)
        await server.wait_for_slow_requests(2)
        assert await idle.end() == b""
        assert await slow[0].end() == b""
        for client in slow[1:]:
            await client.send(b"xx")
            assert (await client.answer()).body == 4
        server.release.set()
        assert [(await client.answer()).status for client in (first, second)] == [200, 200]


async def test_busy_service_answers_the_operator_and_refuses_others() -> None:
    async with small_server(EIGHT) as server:
        for number in range(8):
            await server.connect(f"127.0.0.{2 + number}", SLOW)
        await server.wait_for_slow_requests(8)
        for number in range(2 * OPERATOR_PLACES):
            operator = await server.connect(f"127.0.1.{number}", GET)
            assert (await operator.answer()).status == 200
            assert await operator.end() == b""
        named = SLOW.replace(b"Host: x", b"Host: x\r\nX-Request-ID: parcel-4711")
        refused = await (await server.connect("127.0.0.9", named)).answer()
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.body == {"detail": "Too many connections are open."}
        assert refused.headers["x-content-type-options"] == "nosniff"
        assert refused.headers["x-request-id"] == "parcel-4711"
        assert "server" not in refused.headers
        server.release.set()
        for client in server.clients[:8]:
            assert (await client.answer()).status == 200


async def test_connection_is_refused_when_no_place_is_left() -> None:
    async with small_server(EIGHT) as server:
        for number in range(8 + OPERATOR_PLACES):
            await server.connect(f"127.0.1.{number}", SLOW if number < 8 else SLOW_STATUS)
            await server.wait_for_slow_requests(1)
        refused = await server.connect("127.0.2.1", GET)
        assert (await refused.answer()).status == 503
        assert await refused.end() == b""
        server.release.set()
        statuses = await asyncio.gather(*(client.answer() for client in server.clients[:-1]))
        assert {answer.status for answer in statuses} == {200}


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Use up all descriptors of this process, under a lower limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_new_client_takes_the_descriptor_of_an_idle_one() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as late:
        late.setblocking(False)
        async with small_server(ConnectionSettings()) as server:
            idle = await server.connect(data=GET)
            await idle.answer()
            with no_descriptors_left(), capture_logs() as logged:
                await loop.sock_connect(late, server.address)
                await loop.sock_sendall(late, GET)
                assert await idle.end() == b""
                assert (await loop.sock_recv(late, 12)) == b"HTTP/1.1 200"
    assert [line["event"][:30] for line in logged if line["log_level"] == "error"] == [
        "connections cannot be accepted"
    ]


async def test_lack_of_descriptors_neither_spins_nor_floods_the_log() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as late:
        late.setblocking(False)
        async with small_server(ConnectionSettings()) as server:
            with no_descriptors_left(), capture_logs() as logged:
                await loop.sock_connect(late, server.address)
                await loop.sock_sendall(late, GET)
                began = time.thread_time()
                received = asyncio.create_task(loop.sock_recv(late, 12))
                done, _ = await asyncio.wait({received}, timeout=0.7)
                assert not done
                assert time.thread_time() - began < 0.35
            assert len([line for line in logged if line["log_level"] == "error"]) == 1
            assert await received == b"HTTP/1.1 200"
