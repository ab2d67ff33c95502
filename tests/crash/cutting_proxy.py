"""Proxies between a client and the service, which cut connections, and between a node and PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.acceptance.client import eventually

CHUNK_BYTES = 1 << 14


class _Connection:
    """A connection of a client, passed on to the service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, random: Random) -> None:
        self.request = b""  # what the client has sent last
        self.is_cut = False
        self._reader = reader
        self._writer = writer
        self._random = random

    def cut(self) -> None:
        """Break the connection at once, or in the middle of what the service sends next."""
        self.is_cut = True
        if self._random.random() < 0.5:
            self.abort()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def pass_on(self, url: str) -> None:
        """Exchange bytes with the service until one of both ends the connection, or it is cut."""
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            await _first_of(self._send_requests(writer), self._send_answers(reader))
        finally:
            writer.transport.abort()

    async def _send_requests(self, service: asyncio.StreamWriter) -> None:
        while chunk := await self._reader.read(CHUNK_BYTES):
            self.request = chunk
            service.write(chunk)
            await service.drain()

    async def _send_answers(self, service: asyncio.StreamReader) -> None:
        while chunk := await service.read(CHUNK_BYTES):
            part = chunk[: self._random.randrange(len(chunk))] if self.is_cut else chunk
            self._writer.write(part)
            await self._writer.drain()
            if self.is_cut:
                break
        self._writer.close()
        await self._writer.wait_closed()


class CuttingProxy:
    """Connects clients with the service at `service_url`, which may change while this address stays."""

    def __init__(self, service_url: str, random: Random) -> None:
        self.service_url = service_url
        self.url = ""
        self._random = random
        self._open: set[_Connection] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["CuttingProxy"]:
        """Listen on a port of its own while the block lasts."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            server.close()
            for connection in self._open:
                connection.abort()

    async def cut(self, path: str) -> None:
        """Wait until a client has a connection on which it has requested this path, and cut one of them."""
        start = f"GET {path}".encode()

        async def look() -> list[_Connection] | None:
            return [each for each in self._open if each.request.startswith(start)] or None

        connection = self._random.choice(await eventually(look, f"a client to request {path}"))
        self._open.remove(connection)
        connection.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self._random)
        self._open.add(connection)
        with suppress(OSError):  # the service is away, or one of both has broken the connection
            await connection.pass_on(self.service_url)
        self._open.discard(connection)
        connection.abort()


class BlockingProxy:
    """Connects a node with the Unix socket of PostgreSQL, and lets nothing pass while it is blocked."""

    def __init__(self, database_url: str) -> None:
        parts = urlsplit(database_url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._database = parts.path
        self._is_open = asyncio.Event()
        self._is_open.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Yield the URL of the database over this proxy, and listen while the block lasts."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            yield f"postgresql://postgres@{host}:{port}{self._database}"
        finally:
            server.close()

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Let neither bytes nor the ends of connections pass while the block lasts."""
        self._is_open.clear()
        try:
            yield
        finally:
            self._is_open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._is_open.wait()
        server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
        with suppress(OSError):  # one of both has broken the connection
            await _first_of(self._pass_on(reader, server_writer), self._pass_on(server_reader, writer))
        await self._is_open.wait()
        for each in (server_writer, writer):
            each.transport.abort()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK_BYTES):
            await self._is_open.wait()
            target.write(chunk)
            await target.drain()


async def _first_of(*directions: Coroutine[Any, Any, None]) -> None:
    """Return when one of them ends. Raise its error."""
    tasks = [asyncio.create_task(direction) for direction in directions]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
