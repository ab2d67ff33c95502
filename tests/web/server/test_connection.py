"""What a connection may cost: its heads, unread bodies and slow readers; the headers of every answer."""

import asyncio
import gc
import re
import socket
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast
from uuid import uuid4

import pytest
import structlog
from aiohttp import web
from structlog.typing import EventDict

from storage.postgres.paging import CHUNK_BYTES
from tests.patience import PATIENCE_SECONDS
from tests.web.conftest import Address, Api, Service, StartService
from tests.web.server.clients import GET, Client, small_server
from web.api.service.pages import FILE_TYPES, PAGES
from web.app import ROUTES
from web.app_keys import ROOM
from web.request_room import LIST_UNITS, RequestRoom
from web.server import connection, listener
from web.server.connection import (
    COPIES,
    HEAD_TOO_LONG,
    MAX_HEAD_BYTES,
    SECURITY_HEADERS,
    Connection,
    UnsentBytes,
    raw_answer,
)
from web.server.listener import serving
from web.settings import ConnectionSettings

LIMITED = ConnectionSettings(head_seconds=0.4)
POST = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n"
LATE = b'{"detail":"The request head did not arrive within 0.4 seconds."}'
POLICY = "Content-Security-Policy"
CACHING = "Cache-Control"


async def trickle(client: Client) -> None:
    """Send a long head byte by byte until the server ends the connection; fail if it never does."""
    ended = asyncio.create_task(client.end())
    for byte in GET[:-2] + b"A: b\r\n" * 100:
        done, _ = await asyncio.wait({ended}, timeout=0.02)
        if done:
            return
        client.writer.write(bytes([byte]))
    raise AssertionError("the server has waited for the whole head")


async def test_connection_that_sends_nothing_is_closed() -> None:
    async with small_server(LIMITED) as server:
        assert await (await server.connect()).end() == b""


async def test_head_that_is_not_completed_is_refused() -> None:
    async with small_server(LIMITED) as server:
        answer = await (await server.connect(data=GET[:-2])).end()
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert answer.endswith(LATE)


async def test_head_that_trickles_ends_the_connection() -> None:
    async with small_server(LIMITED) as server:
        await trickle(await server.connect())


async def test_further_head_on_a_connection_has_the_same_limit() -> None:
    async with small_server(LIMITED) as server:
        for _ in range(2):
            client = await server.connect(data=GET)
            assert (await client.answer()).status == 200
        await trickle(client)
        first = server.clients[0]
        await first.send(GET[:-2])
        assert (await first.end()).endswith(LATE)


async def test_late_head_behind_a_request_ends_the_connection_after_it() -> None:
    async with small_server(LIMITED) as server:
        client = await server.connect(data=GET.replace(b"/healthz", b"/slow"))
        await server.wait_for_slow_requests(1)
        await client.send(GET[:10])
        asyncio.get_running_loop().call_later(0.9, server.release.set)
        assert (await client.answer()).status == 200
        assert await client.end() == b""


async def test_idle_connection_stays_open_beyond_the_head_limit() -> None:
    async with small_server(ConnectionSettings(head_seconds=0.3)) as server:
        client = await server.connect(data=GET)
        await client.answer()
        idle = asyncio.create_task(client.reader.read(1))
        done, _ = await asyncio.wait({idle}, timeout=0.5)
        assert not done
        await client.send(GET)
        assert await idle == b"H"


async def test_idle_connection_ends_after_its_own_limit() -> None:
    async with small_server(ConnectionSettings(keepalive_seconds=0.5)) as server:
        client = await server.connect(data=GET)
        await client.answer()
        assert await client.end() == b""


async def test_body_that_trickles_is_not_taken_for_a_head() -> None:
    async with small_server(ConnectionSettings(head_seconds=0.3)) as server:
        client = await server.connect(data=POST)
        answered = asyncio.create_task(client.answer())
        for _ in range(6):
            await asyncio.wait({answered}, timeout=0.1)
            await client.send(b"x")
        assert (await answered).body == 6
        idle = asyncio.create_task(client.reader.read(1))
        done, _ = await asyncio.wait({idle}, timeout=0.5)
        assert not done
        await client.send(GET)
        assert await idle == b"H"


LONG_HEAD = GET[:-2] + b"".join(b"X-%d: " % number + b"x" * 4000 + b"\r\n" for number in range(5))


@pytest.mark.parametrize("sent", [LONG_HEAD + b"\r\n", LONG_HEAD])
async def test_long_head_is_refused_before_it_is_kept(sent: bytes) -> None:
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=GET)
        await client.answer()
        await client.send(sent)
        refused = await client.answer()
        assert (refused.status, refused.body) == (431, {"detail": HEAD_TOO_LONG})
        assert await client.end() == b""


async def test_long_head_behind_pipelined_requests_is_refused() -> None:
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=GET * 500 + LONG_HEAD + b"\r\n")
        assert [(await client.answer()).status for _ in range(501)] == [200] * 500 + [431]


async def test_body_beyond_the_head_limit_is_read() -> None:
    body = b"x" * 4 * MAX_HEAD_BYTES
    head = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=head + body + GET + head)
        assert (await client.answer()).body == len(body)
        assert (await client.answer()).status == 200
        await client.send(body)
        assert (await client.answer()).body == len(body)


HEAD = b"POST /refuse HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 1_048_576
CHUNK = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
MAX_SENT = 32 * MIB  # what the server reads, and what the kernel takes at both ends


async def send_endlessly(client: Client, piece: bytes) -> int:
    """Send until the server ends the connection, and return how many bytes could be sent."""
    sent = 0
    try:
        while sent < 10 * MAX_SENT:
            await client.send(piece)
            sent += len(piece)
    except ConnectionError:
        pass
    return sent


@pytest.mark.parametrize(
    "head", [CHUNKED, HEAD + b"Content-Length: 1073741824\r\n\r\n"], ids=["chunked", "announced"]
)
async def test_endless_body_of_refused_request_is_cut_off(head: bytes) -> None:
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=head)
        assert (await client.answer()).status == 401
        assert await send_endlessly(client, CHUNK) < MAX_SENT


async def test_body_that_stops_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "DISCARD_SECONDS", 0.1)
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=CHUNKED + CHUNK)
        assert (await client.answer()).status == 401
        assert await client.end() == b""


async def test_short_rest_of_body_leaves_the_connection_usable() -> None:
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=HEAD + b"Content-Length: 4\r\n\r\n")
        assert (await client.answer()).status == 401
        await client.send(b"rest" + GET)
        assert (await client.answer()).status == 200


async def test_malformed_rest_of_body_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "DISCARD_SECONDS", 0.1)
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=CHUNKED)
        assert (await client.answer()).status == 401
        await client.send(b"no chunk\r\n" + GET)
        assert b"200 OK" not in await client.end()


@pytest.mark.parametrize("header", [b"Content-Length: 2000000", b"Content-Length: 5\r\nExpect: 100-continue"])
async def test_refusal_announces_that_the_rest_is_not_wanted(
    header: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DISCARD_SECONDS", 0.1)
    async with small_server(ConnectionSettings()) as server:
        client = await server.connect(data=HEAD + header + b"\r\n\r\n")
        if b"Expect" in header:
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert await client.end() == b""


DOCUMENTS = "/api/defaults/documents/"
READER_SECONDS = 1.0  # a slow machine may stand still for some tenths
CONTENT = "x" * 1_000_000
PIECE_BYTES = 100_000
LOST_CLIENTS = 6
LONG = 16_000_000  # more than the operating system takes for a client that reads nothing
MORE_THAN_BUFFERS = 60  # documents: the operating system takes some megabytes for a client that reads nothing


@pytest.fixture
async def service(start_service: StartService) -> Service:
    return await start_service(ConnectionSettings(reader_seconds=READER_SECONDS))


async def request(address: Address, api: Api, path: str, headers: str = "", times: int = 1) -> socket.socket:
    """Send requests on one connection, with a small buffer for their answers."""
    loop, client = asyncio.get_running_loop(), socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await loop.sock_connect(client, address)
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\n\r\n"
    await loop.sock_sendall(client, head.encode() * times)
    return client


async def read_all(client: socket.socket) -> int:
    """Read to the end of the connection, and return the number of bytes."""
    loop, count = asyncio.get_running_loop(), 0
    with client:
        while True:
            try:
                piece = await loop.sock_recv(client, PIECE_BYTES)
            except ConnectionResetError:
                return count
            if not piece:
                return count
            count += len(piece)


@contextmanager
def first_line_about_slow_reader() -> Iterator["asyncio.Future[EventDict]"]:
    """Yield a future of the first log line about a reader that was cut off."""
    first: asyncio.Future[EventDict] = asyncio.get_running_loop().create_future()

    def note(_logger: Any, _method: str, event: EventDict) -> EventDict:
        if event["event"] == "slow reader cut off" and not first.done():
            first.set_result(dict(event))
        return event

    processors = structlog.get_config()["processors"]
    processors.insert(0, note)
    try:
        yield first
    finally:
        processors.remove(note)


async def one_document(api: Api) -> str:
    return f"{DOCUMENTS}{(await api.create(DOCUMENTS, title='d', content=CONTENT))['id']}/"


async def long_list(api: Api) -> str:
    for _ in range(MORE_THAN_BUFFERS // 10):
        await api.create(DOCUMENTS, title="d", content=CONTENT)
    return DOCUMENTS


@pytest.mark.parametrize("store", [one_document, long_list])
async def test_client_that_reads_nothing_is_cut_off(
    service: Service, api: Api, store: Callable[[Api], Awaitable[str]]
) -> None:
    path = await store(api)
    with first_line_about_slow_reader() as first:
        client = await request(service.address, api, path, times=MORE_THAN_BUFFERS)
        line = await first
    assert line["seconds"] == READER_SECONDS
    assert await read_all(client) < MORE_THAN_BUFFERS * 1_000_000


async def test_client_that_reads_slowly_is_not_cut_off(service: Service, api: Api) -> None:
    path, loop = await long_list(api), asyncio.get_running_loop()
    with first_line_about_slow_reader() as first, await request(service.address, api, path) as client:
        until = loop.time() + 4 * READER_SECONDS
        while loop.time() < until:
            await asyncio.sleep(READER_SECONDS / 10)
            assert await loop.sock_recv(client, PIECE_BYTES)
        assert not first.done()


@pytest.mark.one_node
async def test_answer_to_lost_client_is_freed_at_once(service: Service, api: Api) -> None:
    """Garbage collections are seldom, so nothing of the answer may be part of a reference cycle."""
    path, room = await long_list(api), service.app[ROOM]
    gc.collect()
    with allocations() as allocated_bytes:
        clients = [await request(service.address, api, path) for _ in range(LOST_CLIENTS)]
        while units_taken(room) < LOST_CLIENTS * LIST_UNITS:  # noqa: ASYNC110 -- nothing signals it
            await asyncio.sleep(0)
        for client in clients:
            client.close()
        while units_taken(room):  # noqa: ASYNC110
            await asyncio.sleep(0)
        await until_freed(allocated_bytes)


async def until_freed(allocated_bytes: Callable[[], int]) -> None:
    """Wait until half of the answers are freed. The service ends the last one after the client read it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while allocated_bytes() >= len(CONTENT) * LOST_CLIENTS // 2:  # noqa: ASYNC110 -- nothing signals it
            await asyncio.sleep(0)


def units_taken(room: RequestRoom) -> int:
    return int(repr(room).split()[1])


async def test_idle_connections_keep_neither_bodies_nor_answers(service: Service, api: Api) -> None:
    body = b'{"title": "d", "content": "' + CONTENT.encode() + b'"}'
    head = f"POST {DOCUMENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {api.authorization}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    await api.create(DOCUMENTS, title="d", content=CONTENT)
    gc.collect()
    with allocations() as allocated_bytes:
        clients = [await asyncio.open_connection(*service.address, limit=2**21) for _ in range(LOST_CLIENTS)]
        for reader, writer in clients:
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            assert len(await reader.readexactly(length)) > len(CONTENT)
        del answer
        await until_freed(allocated_bytes)
        for _, writer in clients:
            writer.close()


async def test_unsent_bytes_are_those_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system takes most of an answer at once; all of it is held until the client has the last byte."""
    unsent = UnsentBytes()
    monkeypatch.setattr(connection, "UnsentBytes", lambda: unsent)
    app, nothing = web.Application(), repr(unsent)
    app.router.add_get("/", long_answer)
    with socket.create_server(("127.0.0.1", 0)) as server, allocations() as allocated_bytes:
        async with listener.serving(app, server):
            _, writer = await asyncio.open_connection(*server.getsockname(), limit=2**16)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            while repr(unsent) == nothing:  # noqa: ASYNC110 -- nothing signals it
                await asyncio.sleep(0)
            held = int(repr(unsent).split()[1])
            assert COPIES * LONG <= held < COPIES * LONG + 1000
            assert allocated_bytes() < held + 1_000_000
            writer.close()


async def long_answer(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * LONG, headers={"Content-Type": "text/plain"})


@contextmanager
def allocations() -> Iterator[Callable[[], int]]:
    """Yield a function that returns how many bytes have been allocated and not freed; collect no garbage."""
    gc.disable()
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()


@dataclass(eq=False)
class Reader:
    name: str
    ended: list[str] = field(repr=False)
    network: str = "198.51.100.1"
    is_trusted: bool = False

    def cut_off(self, reason: str) -> None:
        self.ended.append(self.name)


def test_longest_wait_ends_when_network_exceeds_its_share() -> None:
    unsent, ended = UnsentBytes(max_bytes=400), list[str]()
    first, second, third = (cast(Connection, Reader(name, ended)) for name in ("first", "second", "third"))
    unsent.add(first, 40)
    unsent.add(second, 60)
    unsent.remove(first)
    unsent.add(first, 40)  # it has taken some bytes, and waits again
    assert ended == []
    unsent.add(third, 1)
    assert ended == ["second"]
    for reader in (first, second, third):
        unsent.remove(reader)
    assert repr(unsent) == "<UnsentBytes: 0 of 400>"


def test_network_with_most_bytes_makes_room_for_others() -> None:
    unsent, ended = UnsentBytes(max_bytes=400), list[str]()
    unsent.add(cast(Connection, Reader("honest", ended)), 30)
    for number in range(10):
        proxied = Reader(f"proxied {number}", ended, "198.51.100.9", is_trusted=True)
        unsent.add(cast(Connection, proxied), 37)
    assert ended == []
    unsent.add(cast(Connection, Reader("new", ended, "198.51.100.2")), 10)
    assert ended == ["proxied 0"]


@pytest.mark.parametrize(
    "changes", [{"max_connections": 0}, {"head_seconds": 0}, {"reader_seconds": 0}, {"keepalive_seconds": -1}]
)
def test_limits_must_be_positive(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        ConnectionSettings(**changes)


def check_headers(headers: Mapping[str, str], where: str, *, is_page: bool = False) -> None:
    """Check the headers of an answer; the pages of the documentation have some values of their own."""
    lower = {name.lower(): value for name, value in headers.items()}
    assert "server" not in lower, where
    for name, value in SECURITY_HEADERS.items():
        if is_page and name in {POLICY, CACHING}:
            assert lower[name.lower()] != value, where
        else:
            assert lower.get(name.lower()) == value, where


async def test_answers_of_all_routes_have_the_headers(service: Service, api: Api) -> None:
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", str(uuid4()), route.path)
        for client in (service.nobody, api, service.operator):
            answer = await client.request(route.method, path)
            check_headers(answer.headers, f"{route.method} {path}", is_page=path == PAGES)
        answer = await api.request("OPTIONS", path)
        check_headers(answer.headers, f"OPTIONS {path}")


async def test_files_of_the_documentation_have_the_headers(service: Service) -> None:
    for name in FILE_TYPES:
        async with service.client.get(PAGES + name) as response:
            check_headers(response.headers, name, is_page=True)
            assert response.headers[CACHING] == "no-cache"


async def test_answers_of_the_framework_have_the_headers(service: Service, api: Api) -> None:
    for path in ("/nowhere/", DOCUMENTS.rstrip("/"), f"{PAGES}nothing.js", f"{DOCUMENTS}%ff/"):
        check_headers((await api.get(path)).headers, path)
    answer = await api.get("/healthz", headers={"Expect": "wizardry"})
    assert answer.status == 417
    check_headers(answer.headers, "417")
    check_headers((await api.request("HEAD", DOCUMENTS)).headers, "HEAD")
    for request in (b"NONSENSE\r\n\r\n", GET[:-2] + b"A: b\x01\r\n\r\n"):
        client = Client(*await asyncio.open_connection(*service.address))
        await client.send(request)
        malformed = await client.answer()
        assert malformed.status == 400
        check_headers(malformed.headers, "400")
        client.writer.close()


async def test_streamed_list_has_the_headers(api: Api) -> None:
    for _ in range(2):
        await api.create(DOCUMENTS, title="A", content="x" * CHUNK_BYTES)
    answer = await api.get(DOCUMENTS)
    assert answer.headers["Transfer-Encoding"] == "chunked"
    check_headers(answer.headers, "list")


async def test_refused_and_late_connections_have_the_headers() -> None:
    async with small_server(ConnectionSettings(max_connections=2, head_seconds=0.1)) as server:
        late = await server.connect(data=GET[:10])
        refused = await server.connect()
        for client, status in ((refused, 429), (late, 408)):
            answer = await client.answer()
            assert answer.status == status
            check_headers(answer.headers, str(status))


async def test_crash_has_the_headers() -> None:
    async def fail(_: web.Request) -> web.Response:
        raise RuntimeError

    crashing = web.Application()
    crashing.router.add_get("/healthz", fail)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(crashing, listener):
            client = Client(*await asyncio.open_connection(*listener.getsockname()))
            await client.send(GET)
            answer = await client.answer()
            client.writer.close()
        assert answer.status == 500
        check_headers(answer.headers, "500")


async def test_https_clients_are_told_to_stay_with_https() -> None:
    for settings, expected in (
        (ConnectionSettings(is_https=True), "max-age=31536000"),
        (ConnectionSettings(), None),
    ):
        async with small_server(settings) as server:
            for request in (GET, b"NONSENSE\r\n\r\n"):
                answer = await (await server.connect(data=request)).answer()
                assert answer.headers.get("strict-transport-security") == expected


def test_raw_answer_is_a_whole_answer_that_ends_the_connection() -> None:
    head, _, body = raw_answer(HTTPStatus.SERVICE_UNAVAILABLE, "Full.", {"A": "b"}).partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    assert status == "HTTP/1.1 503 Service Unavailable"
    assert body == b'{"detail":"Full."}'
    names = [header.partition(": ")[0] for header in headers]
    assert names == ["Content-Type", "Content-Length", "X-Request-ID", "A", "Connection", "Retry-After"]
    assert f"Content-Length: {len(body)}" in headers


def test_late_request_is_not_asked_to_retry() -> None:
    assert b"Retry-After" not in raw_answer(HTTPStatus.REQUEST_TIMEOUT, "Late.", {})
