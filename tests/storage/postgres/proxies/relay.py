"""A relay in front of PostgreSQL that can fall silent without closing, as a network can."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

_SOCKET_NAME = ".s.PGSQL.5432"


class Relay:
    """Forwards data in both directions until it falls silent."""

    def __init__(self, socket_path: str) -> None:
        self.port = 0
        self.connections = 0
        self._socket_path = socket_path
        self._open: set[asyncio.Task[None]] = set()
        self._silenced: set[asyncio.StreamReader] = set()
        self._readers: set[asyncio.StreamReader] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self) -> None:
        """Accept connections, on the same port as before if there was one."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Close all connections, and refuse new ones."""
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def fall_silent(self) -> None:
        """Stop forwarding on the present connections, without closing them."""
        self._silenced |= self._readers

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._socket_path)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, server_writer))
                group.create_task(self._forward(server_reader, writer))
        finally:
            self._open.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._readers.add(reader)
        try:
            with suppress(ConnectionError):
                while data := await reader.read(65536):
                    if reader not in self._silenced:
                        writer.write(data)
        finally:
            self._readers.discard(reader)
            writer.close()


@asynccontextmanager
async def relay(database_url: str) -> AsyncIterator[tuple[Relay, str]]:
    """Yield a relay to the server of `database_url`, which must be on a Unix socket, and the relay's URL."""
    url = urlsplit(database_url)
    in_between = Relay(f"{parse_qs(url.query)['host'][0]}/{_SOCKET_NAME}")
    await in_between.accept()
    try:
        yield in_between, f"postgresql://postgres@127.0.0.1:{in_between.port}{url.path}?sslmode=disable"
    finally:
        await in_between.refuse()
