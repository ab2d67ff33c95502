"""Clients that read nothing of an answer, or little at a time."""

import asyncio
import gc
import socket
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
import structlog
from aiohttp import web
from structlog.typing import EventDict

from tests.web.conftest import Address, Api, Service, StartService
from web.app_keys import STREAMS
from web.server import listener
from web.server.settings import ConnectionSettings
from web.server.unsent_bytes import UnsentBytes

DOCUMENTS = "/api/defaults/documents/"
READER_SECONDS = 0.3
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
        async with asyncio.timeout(20):
            line = await first
    assert line["seconds"] == READER_SECONDS
    assert 0 < line["unsent_bytes"] <= 1_100_000, "one answer, or one piece of it"
    assert await read_all(client) < MORE_THAN_BUFFERS * 1_000_000


async def test_client_that_reads_slowly_is_not_cut_off(service: Service, api: Api) -> None:
    path, loop = await long_list(api), asyncio.get_running_loop()
    with first_line_about_slow_reader() as first, await request(service.address, api, path) as client:
        until = loop.time() + 4 * READER_SECONDS
        while loop.time() < until:
            await asyncio.sleep(READER_SECONDS / 10)
            assert await loop.sock_recv(client, PIECE_BYTES)
        assert not first.done()


async def test_answer_to_lost_client_is_freed_at_once(start_service: StartService) -> None:
    """Garbage collections are seldom, so nothing of the answer may be part of a reference cycle."""
    service = await start_service(streams_per_caller=LOST_CLIENTS)
    api = await service.new_organization()
    path = await long_list(api)
    gc.collect()
    with allocations() as allocated_bytes:
        clients = [await request(service.address, api, path) for _ in range(LOST_CLIENTS)]
        async with asyncio.timeout(20):
            while (await api.request("HEAD", path)).status != 429:
                pass  # until all clients receive a stream
            for client in clients:
                client.close()
            while (await api.request("HEAD", path)).status == 429:
                pass
            while await api.get(f"{path}?limit=2") and service.app[STREAMS].in_use(await owner(service)):
                pass
        assert allocated_bytes() < len(CONTENT) * LOST_CLIENTS // 2


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
        assert allocated_bytes() < len(CONTENT) * LOST_CLIENTS // 2
        for _, writer in clients:
            writer.close()


@pytest.mark.parametrize(("header", "copies"), [("X-A: b", 1), ("Connection: close", 2)])
async def test_unsent_bytes_are_those_held_in_memory(
    monkeypatch: pytest.MonkeyPatch, header: str, copies: int
) -> None:
    """The system takes most of an answer at once; all of it is held until the client has the last byte."""
    unsent = UnsentBytes()
    monkeypatch.setattr(listener, "UnsentBytes", lambda _: unsent)
    app, nothing = web.Application(), repr(unsent)
    app.router.add_get("/", long_answer)
    with socket.create_server(("127.0.0.1", 0)) as server, allocations() as allocated_bytes:
        async with listener.serving(app, server), asyncio.timeout(20):
            _, writer = await asyncio.open_connection(*server.getsockname(), limit=2**16)
            writer.write(f"GET / HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
            while repr(unsent) == nothing:  # noqa: ASYNC110 -- nothing signals it
                await asyncio.sleep(0)
            held = int(repr(unsent).split()[1])
            assert copies * LONG <= held < copies * LONG + 1000
            assert allocated_bytes() < held + 1_000_000
            writer.close()


async def long_answer(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * LONG, headers={"Content-Type": "text/plain"})


async def owner(service: Service) -> UUID:
    organization_id: UUID = await service.storage.pool.fetchval("SELECT id FROM organization")
    return organization_id


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
