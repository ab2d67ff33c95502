"""A server that ends each session as soon as it has begun, as an administrator's command can."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

_SOCKET_NAME = ".s.PGSQL.5432"
_READY = b"Z\0\0\0\x05I"
_FAREWELL = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"


@asynccontextmanager
async def dying_server(database_url: str) -> AsyncIterator[str]:
    """Yield the URL of a server that greets like that of `database_url`, which must be on a Unix socket."""
    url = urlsplit(database_url)
    path = f"{parse_qs(url.query)['host'][0]}/{_SOCKET_NAME}"
    clients: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        from_server, to_server = await asyncio.open_unix_connection(path)
        to_server.write(await reader.read(65536))
        greeting = b""
        while not greeting.endswith(_READY):
            greeting += await from_server.read(65536)
        # In one piece with the greeting, so that the client reads it while it believes itself idle.
        writer.write(greeting + b"E" + (len(_FAREWELL) + 4).to_bytes(4) + _FAREWELL)
        await (
            reader.read()
        )  # until the client has left: it reads the end of the session later than the farewell
        writer.close()
        to_server.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}{url.path}?sslmode=disable"
    finally:
        server.close()
        await asyncio.gather(*clients, return_exceptions=True)
