"""Accepts connections from a listening socket.

The event loop's own server cannot refuse a connection before it costs anything. If descriptors run out, that
of uvloop may end for good, and that of asyncio logs thousands of lines.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

import structlog

from web.server.connections import Connections, Place
from web.server.head_limit import HeadLimit
from web.server.raw_answers import raw_answer

ACCEPTS_AT_ONCE = 64  # in one iteration of the event loop
PAUSE_SECONDS = 0.2  # after a failed accept
REPORT_SECONDS = 60.0

Connect = Callable[[Place, str], HeadLimit]
REFUSALS = {
    Place.NONE: (HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections are open."),
    Place.NONE_FOR_NETWORK: (
        HTTPStatus.TOO_MANY_REQUESTS,
        "Your address has too many open connections.",
    ),
}

log = structlog.get_logger(__name__)


class Acceptor:
    """Passes each connection of a socket to a protocol that `connect` builds, unless it is refused."""

    def __init__(
        self,
        listener: socket.socket,
        connections: Connections,
        connect: Connect,
        answer_headers: Mapping[str, str],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._connections = connections
        self._connect = connect
        self._answer_headers = answer_headers
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._next_report = 0.0

    async def __aenter__(self) -> "Acceptor":
        self._listener.setblocking(False)
        self._resume()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop accepting; the socket still listens, for another acceptor."""
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._loop.remove_reader(self._listener)
        await asyncio.gather(*self._tasks)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                client, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_after(error)
                return
            client.setblocking(False)
            self._admit(client, address[0])

    def _admit(self, client: socket.socket, peer: str) -> None:
        place = self._connections.place_for(peer)
        if place in REFUSALS:
            self._refuse(client, place)
            return
        connection = self._connect(place, peer)
        self._connections.add(connection, peer)
        task = self._loop.create_task(self._open(client, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, client: socket.socket, connection: HeadLimit) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, client)
        except OSError:  # the client has disconnected
            self._connections.remove(connection)
            client.close()

    def _refuse(self, client: socket.socket, place: Place) -> None:
        status, detail = REFUSALS[place]
        with client, suppress(OSError):  # the client may have disconnected
            client.send(raw_answer(status, detail, self._answer_headers))

    def _pause_after(self, error: OSError) -> None:
        """Make room and try again soon. The socket stays readable, so without a pause the loop would spin."""
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._resume)
        self._connections.evict()
        now = self._loop.time()
        if now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            log.error("connections cannot be accepted; raise the limit of open files", reason=error.strerror)
