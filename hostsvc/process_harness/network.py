"""The network of a run that reaches only the service: its connections are passed on to one address."""

import asyncio
import socket
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

ADDRESS = ("127.0.0.1", 8080)  # of the service, for the run, in whose own network nobody else listens
MAX_CONNECTIONS = 32  # of one run; each takes two descriptors here
PIECE_BYTES = 65_536

# A listener that is opened in the network of the run can be used from outside of it.
OPEN_LISTENER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64)
socket.send_fds(socket.socket(fileno=0), [b"."], [listener.fileno()])
"""


@asynccontextmanager
async def open_relay(init: int, service: tuple[str, int]) -> AsyncIterator[None]:
    """Pass on what a run sends to ADDRESS; `init` is the process whose network it is. Raise OSError."""
    slots = asyncio.Semaphore(MAX_CONNECTIONS)
    connections: set[asyncio.Task[None]] = set()

    async def pass_on(reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):
            async with slots:
                other_reader, other_writer = await asyncio.open_connection(*service)
                with closing(other_writer):
                    await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))

    def accept(reader: StreamReader, writer: StreamWriter) -> None:
        if not server.is_serving():  # the kernel had accepted it before the listener was closed
            writer.close()
            return
        task = asyncio.create_task(pass_on(reader, writer), name="connection of a run to the service")
        connections.add(task)
        task.add_done_callback(connections.discard)
        task.add_done_callback(lambda _: writer.close())  # also if it was cancelled before it began

    server = await asyncio.start_server(accept, sock=await _open_listener(init))
    try:
        yield
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _open_listener(init: int) -> socket.socket:
    enter = ("nsenter", "--preserve-credentials", "--user", "--net", "--target", str(init), "--")
    own, passed = socket.socketpair()
    with own, passed:
        helper = await asyncio.create_subprocess_exec(
            *(*enter, sys.executable, "-I", "-S", "-c", OPEN_LISTENER, str(ADDRESS[1])), stdin=passed.fileno()
        )
        if await helper.wait() != 0:
            raise OSError(0, "its network cannot be entered")
        own.setblocking(False)
        _, descriptors, _, _ = socket.recv_fds(own, 1, 1)
    return socket.socket(fileno=descriptors[0])


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    """Copy until the reader ends. Raise OSError if one of the two has broken off."""
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    writer.write_eof()
