"""An application on one or two sockets: who may connect.

Each connection is accepted, unless there are too many. The event loop's own server cannot refuse one before
it costs anything. If descriptors run out, that of uvloop may end for good, and that of asyncio logs thousands
of lines.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from heapq import nsmallest
from http import HTTPStatus
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol, cast

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from supervisors.fair_slots import decrement
from web.app_keys import REQUEST_COUNTS
from web.observability.line_limit import LineLimit
from web.observability.requests import RequestCounts
from web.request.chunks import BUFFER_BYTES
from web.request.client_address import is_within, network_of
from web.server.access_log import AccessLog
from web.server.connection import (
    Connection,
    Shared,
    answer_of_connection,
    headers_for,
    prepare_answer,
    raw_answer,
)
from web.settings import ConnectionSettings

SHUTDOWN_SECONDS = 1.0  # for the last requests; the service has drained before
DEFAULTS = ConnectionSettings()

MAX_SHARE = 2  # one client network may have half of all connections
EVICTED_SHARE = 16  # of the connections are closed at once: finding them examines many
MAX_EXAMINED = 10_000  # which takes 10 ms
FRUITLESS_SECONDS = 0.1  # between two attempts to find connections to close, if there were none
OPERATOR_PLACES = 16  # beyond the maximum, for health checks and the status
BACKLOG = 1024
ACCEPTS_AT_ONCE = 64  # in one iteration of the event loop
PAUSE_SECONDS = 0.2  # after a failed accept
# Of each connection, which inherits it from the listener; the kernel doubles it. The event loop reads all
# that is there, which could be 8 MB, before it turns to the next connection.
RECEIVE_BYTES = 262_144

log = structlog.get_logger(__name__)


class Place(Enum):
    """What a new connection may do."""

    ANY_REQUEST = auto()
    OPERATORS_REQUEST = auto()  # one health check or status request, because all other places are taken
    NONE_FOR_NETWORK = auto()  # refused: its network has its share
    NONE = auto()


class Connections:
    """The open connections, at most `max_connections` and a few for the operator."""

    def __init__(self, settings: ConnectionSettings, lines: LineLimit) -> None:
        self._settings = settings
        self._lines = lines
        self._open: dict[Connection, None] = {}  # the oldest first
        self._by_network: Counter[str] = Counter()
        self._next_eviction = 0.0

    def place_for(self, peer: str) -> Place:
        """Return what a new connection of `peer` may do. If all places are taken, some may be freed."""
        most, share = self._settings.max_connections, max(1, self._settings.max_connections // MAX_SHARE)
        is_trusted = is_within(peer, self._settings.trusted_proxies)
        if self._by_network[network_of(peer)] >= share and not is_trusted:
            self._report()
            return Place.NONE_FOR_NETWORK
        if len(self._open) >= most and asyncio.get_running_loop().time() >= self._next_eviction:
            self.evict()
        if len(self._open) < most:
            return Place.ANY_REQUEST
        if len(self._open) < most + OPERATOR_PLACES:
            return Place.OPERATORS_REQUEST
        self._report()
        return Place.NONE

    def add(self, connection: Connection) -> None:
        self._open[connection] = None
        self._by_network[connection.network] += 1

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended; it may have been forgotten before."""
        if connection in self._open:
            del self._open[connection]
            decrement(self._by_network, connection.network)

    def evict(self) -> None:
        """Close a few connections whose request has not arrived completely.

        Honest clients send their first request at once, and open a new connection when an idle one has ended.
        """
        keys = ((each.order_of_ending(), each) for each in islice(self._open, MAX_EXAMINED))
        candidates = ((key, connection) for key, connection in keys if key is not None)
        most = max(1, self._settings.max_connections // EVICTED_SHARE)
        chosen = nsmallest(most, candidates, key=itemgetter(0))
        for _, connection in chosen:
            self.remove(connection)
            connection.force_close()
        if not chosen:
            self._next_eviction = asyncio.get_running_loop().time() + FRUITLESS_SECONDS
        self._report()

    def _report(self) -> None:
        network, most = max(self._by_network.items(), key=itemgetter(1), default=("", 0))
        self._lines.write(
            log.warning,
            "too many connections: idle ones are closed, and new ones refused; "
            "see server.max_connections and server.trusted_proxies",
            open=len(self._open),
            most_by=network,
            most=most,
        )


REFUSALS = {
    Place.NONE: (HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections are open."),
    Place.NONE_FOR_NETWORK: (
        HTTPStatus.TOO_MANY_REQUESTS,
        "Your address has too many open connections.",
    ),
}


class Connect(Protocol):
    """Build a connection for a client; a spare one is beyond their maximum, for a request of the operator."""

    def __call__(self, peer: str, *, is_spare: bool) -> Connection: ...


@dataclass(slots=True, eq=False)
class Acceptor:
    """Passes each connection of a socket to a protocol that `connect` builds, unless it is refused."""

    listener: socket.socket
    connections: Connections
    connect: Connect
    answer_headers: Mapping[str, str]
    lines: LineLimit
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _pause: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "Acceptor":
        self.listener.setblocking(False)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self.listener.listen(BACKLOG)  # changes nothing if another process with this socket has done so
        self._resume()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop accepting; the socket still listens, for another acceptor."""
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._loop.remove_reader(self.listener)
        await asyncio.gather(*self._tasks)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self.listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                client, address = self.listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_after(error)
                return
            client.setblocking(False)
            place = self.connections.place_for(address[0])
            if place in REFUSALS:
                status, detail = REFUSALS[place]
                with client, suppress(OSError):  # the client may have disconnected
                    client.send(raw_answer(status, detail, self.answer_headers))
                continue
            connection = self.connect(address[0], is_spare=place is Place.OPERATORS_REQUEST)
            self.connections.add(connection)
            task = self._loop.create_task(self._open(client, connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _open(self, client: socket.socket, connection: Connection) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, client)
        except OSError:  # the client has disconnected
            self.connections.remove(connection)
            client.close()

    def _pause_after(self, error: OSError) -> None:
        """Make room and try again soon. The socket stays readable, so without a pause the loop would spin."""
        self._loop.remove_reader(self.listener)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._resume)
        self.connections.evict()
        self.lines.write(
            log.error, "connections cannot be accepted; raise the limit of open files", reason=error.strerror
        )


@asynccontextmanager
async def serving(
    app: web.Application, *listeners: socket.socket, settings: ConnectionSettings = DEFAULTS
) -> AsyncIterator[None]:
    """Serve requests from bound sockets, with one limit on the connections of all together.

    The sockets listen from now on, also afterwards: another process or server may accept from them, too.
    """
    headers = headers_for(is_https=settings.is_https)
    app.on_response_prepare.append(partial(prepare_answer, headers))
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    manager = cast(web.Server, runner.server)
    application = cast(Handler, manager.request_handler)
    manager.request_handler = answer_of_connection
    lines = LineLimit(asyncio.get_running_loop().time)
    connections = Connections(settings, lines)
    counts = app.get(REQUEST_COUNTS) or RequestCounts()
    shared = Shared(application, counts, settings, headers, lines, connections.remove)
    connect = partial(Connection, manager, shared, _options(settings))
    try:
        async with AsyncExitStack() as stack:
            for listener in listeners:
                acceptor = Acceptor(listener, connections, connect, headers, lines)
                await stack.enter_async_context(acceptor)
            yield
    finally:
        await runner.cleanup()


def _options(settings: ConnectionSettings) -> dict[str, Any]:
    """Return the framework's options for connections."""
    options: dict[str, Any] = {
        "auto_decompress": False,  # `web/request/parsing.py` decompresses, and only bodies that are read
        "read_bufsize": BUFFER_BYTES,
        "lingering_time": 0.0,  # `Connection` drops the rest of a body, and limits its bytes as well
        "access_log": None,
    }
    if settings.has_access_log:
        options["access_log"] = logging.getLogger("access")
        options["access_log_class"] = partial(AccessLog, trusted_proxies=settings.trusted_proxies)
    return options
