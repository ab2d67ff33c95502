"""Plain connections to a small application, from any loopback address."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from web.server.listener import serving
from web.settings import ConnectionSettings

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

Address = tuple[str, int]


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]  # names in lower case
    body: Any


@dataclass
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> RawAnswer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return RawAnswer(int(head[0].split()[1]), headers, json.loads(body) if body else None)

    async def end(self) -> bytes:
        """Return what still arrives before the server closes the connection."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


@dataclass
class Server:
    """An application with a route that waits for `release`, and one that reads its body."""

    address: Address = ("", 0)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    clients: list[Client] = field(default_factory=list)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/healthz", self._answer)
        app.router.add_get("/slow", self._wait)
        app.router.add_get("/status/slow/", self._wait)
        app.router.add_post("/read", self._read)
        app.router.add_post("/refuse", self._refuse)
        return app

    async def connect(self, peer: str = "127.0.0.1", data: bytes = b"") -> Client:
        client = Client(*await asyncio.open_connection(*self.address, local_addr=(peer, 0)))
        self.clients.append(client)
        if data:
            await client.send(data)
        return client

    async def wait_for_slow_requests(self, count: int) -> None:
        """Wait until so many further requests wait for `release`."""
        for _ in range(count):
            await self.begun.acquire()

    async def _answer(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _wait(self, _: web.Request) -> web.Response:
        self.begun.release()
        await self.release.wait()
        return web.json_response({})

    async def _read(self, request: web.Request) -> web.Response:
        return web.json_response(len(await request.read()))

    async def _refuse(self, _: web.Request) -> web.Response:
        return web.json_response({}, status=401)


@asynccontextmanager
async def small_server(settings: ConnectionSettings, *others: socket.socket) -> AsyncIterator[Server]:
    """Serve the small application, also on other sockets, and close the clients' connections afterwards."""
    server = Server()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with serving(server.app(), listener, *others, settings=settings):
            server.address = listener.getsockname()
            try:
                yield server
            finally:
                server.release.set()
                for client in server.clients:
                    client.writer.transport.abort()
