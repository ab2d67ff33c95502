"""A proxy that assigns another session to every transaction of a client, as connection poolers can."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

_SOCKET_NAME = ".s.PGSQL.5432"
_READY = b"Z"
_TERMINATE = b"X"
# The messages a client waits for after Sync, Query, and the Flush with which asyncpg describes a statement.
_LAST_OF_ANSWER = {b"S": b"Z", b"Q": b"Z", b"H": b"TnE"}


@dataclass
class _Session:
    """One session with the real server, and the greeting with which it began."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: bytes


@asynccontextmanager
async def transaction_pooler(database_url: str, *, refuse_settings: bool = False) -> AsyncIterator[str]:
    """Yield the URL of a pooler for the server of `database_url`, which must be on a Unix socket."""
    url = urlsplit(database_url)
    pooler = _Pooler(parse_qs(url.query)["host"][0], url.path.removeprefix("/"), refuse_settings)
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}{url.path}?sslmode=disable"
    finally:
        server.close()
        for task in pooler.clients:
            task.cancel()
        await asyncio.gather(*pooler.clients, return_exceptions=True)
        for session in pooler.idle:
            session.writer.close()


class _Pooler:
    def __init__(self, host: str, database: str, refuse_settings: bool) -> None:
        self.idle: list[_Session] = []
        self.clients: set[asyncio.Task[None]] = set()
        self._host = host
        self._database = database
        self._refuse_settings = refuse_settings

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.clients.add(task)
        try:
            await self._greet(reader, writer)
            while await self._transaction(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has disconnected
        finally:
            self.clients.discard(task)
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack("!I", await reader.readexactly(4))
        startup = await reader.readexactly(length - 4)
        if self._refuse_settings and b"hostsvc.origin" in startup:
            text = b"SFATAL\0C08P01\0Munsupported startup parameter: hostsvc.origin\0\0"
            writer.write(b"E" + struct.pack("!I", len(text) + 4) + text)
            raise ConnectionError
        session = await self._take()
        writer.write(session.greeting)
        self.idle.insert(0, session)

    async def _transaction(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Relay messages to a session until its transaction ends. Return False if the client disconnects."""
        kind, message = await _read_message(reader)
        if kind == _TERMINATE:
            return False
        session = await self._take()
        while True:
            session.writer.write(message)
            last = _LAST_OF_ANSWER.get(kind)
            if last and await _answer(session, writer, last) == _READY + b"I":
                break
            kind, message = await _read_message(reader)
        self.idle.insert(0, session)  # so another session is taken next
        return True

    async def _take(self) -> _Session:
        if len(self.idle) > 1:
            return self.idle.pop()
        reader, writer = await asyncio.open_unix_connection(f"{self._host}/{_SOCKET_NAME}")
        settings = f"user\0postgres\0database\0{self._database}\0hostsvc.origin\0service\0\0".encode()
        writer.write(struct.pack("!II", len(settings) + 8, 3 << 16) + settings)
        kind = greeting = b""
        while kind != _READY:
            kind, message = await _read_message(reader)
            greeting += message
        return _Session(reader, writer, greeting)


async def _answer(session: _Session, writer: asyncio.StreamWriter, last: bytes) -> bytes:
    """Relay the server's answer up to a message of a kind in `last`; return its kind and last byte."""
    while True:
        kind, message = await _read_message(session.reader)
        writer.write(message)
        if kind in last:
            return kind + message[-1:]


async def _read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    (length,) = struct.unpack("!I", head[1:])
    return head[:1], head + await reader.readexactly(length - 4)
