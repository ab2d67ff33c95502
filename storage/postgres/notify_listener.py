"""The doorbell: a listener that learns at once of rows that other programs write to the queue.

Triggers on the table (`storage/migrations`) ring it on a PostgreSQL channel. A ring names the agents it
concerns, or none, which means that all agents must be checked. It carries nothing that is not in the tables,
so a lost ring only costs time, until the next scan.

A round trip every few seconds detects a connection that is dead or only seems alive; it is then replaced. The
new connection listens before all agents are checked, so no row falls between the two.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Protocol
from uuid import UUID

import aiopg
import psycopg2
import structlog

from storage.errors import DatabaseUnavailable, StorageError
from storage.postgres.leadership import Report
from storage.postgres.libpq import connect_by_libpq

LISTEN = "LISTEN hostsvc_doorbell"
RING = "SELECT pg_notify('hostsvc_doorbell', %s)"

PROBE = "probe "
EVENTS = "events"  # a transaction of another program has written events
PROBE_SECONDS = 5.0
ANSWER_SECONDS = 3.0  # a connection silent for longer is lost
MIN_PAUSE_SECONDS = 0.1  # before reconnecting; doubled until a connection has lasted
MAX_PAUSE_SECONDS = 1.0
CATCH_UP_SECONDS = 1.0  # minimum interval of the checks of all agents, however often it rings

OnRing = Callable[[Sequence[UUID]], None]
CatchUp = Callable[[], Awaitable[None]]

_log = structlog.get_logger(__name__)


class Clock(Protocol):
    """The part of a clock that the listener needs."""

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


@asynccontextmanager
async def open_notify_listener(
    url: str, on_ring: OnRing, catch_up: CatchUp, clock: Clock, report: Report = lambda _: None
) -> AsyncIterator["NotifyListener"]:
    """Yield the listener once it has heard its own probe; later it reconnects by itself.

    `on_ring` is called with the agents named by a ring, none for a ring about events. `catch_up` must check
    all agents: it is called after an outage, and after a ring that names nobody. `report` is called with the
    reason when the connection is lost or cannot be made, and with "" when it is back. Raise a StorageError if
    the first attempt fails.
    """
    listener = NotifyListener(on_ring, catch_up, clock, report)
    listening = asyncio.create_task(listener.keep_listening(url), name="doorbell")
    catching_up = asyncio.create_task(listener.keep_catching_up(), name="doorbell catch-up")
    connected = asyncio.create_task(listener.wait_until_listening(), name="doorbell connected")
    tasks = {listening, catching_up, connected}
    try:
        await asyncio.wait({listening, connected}, return_when=asyncio.FIRST_COMPLETED)
        if listening.done():
            listening.result()
        yield listener
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class NotifyListener:
    """Hears the rings for one instance. While it cannot, `away_since` is set and `reason` says why."""

    def __init__(
        self, on_ring: OnRing, catch_up: CatchUp, clock: Clock, report: Report = lambda _: None
    ) -> None:
        self.away_since: datetime | None = None
        self.reason = ""
        self.last_heard_at: datetime | None = None  # a ring or a probe
        self._on_ring = on_ring
        self._catch_up = catch_up
        self._clock = clock
        self._report = report
        self._has_connected = asyncio.Event()
        self._must_catch_up = asyncio.Event()
        self._probe = ""
        self._probe_heard = asyncio.Event()
        self._pause_seconds = MIN_PAUSE_SECONDS

    def __repr__(self) -> str:
        state = f"away since {self.away_since}" if self.away_since else "listening"
        return f"<NotifyListener: {state}, last heard at {self.last_heard_at}>"

    async def wait_until_listening(self) -> None:
        """Wait until it has listened for the first time."""
        await self._has_connected.wait()

    async def keep_listening(self, url: str) -> None:
        """Listen, reconnecting whenever the connection is lost. Raise if the first connection fails."""
        while True:
            try:
                async with connect_by_libpq(url) as connection:
                    await self._listen(connection)
            except Exception as error:  # the outermost edge of the task
                if not self._has_connected.is_set():
                    raise
                if not isinstance(error, DatabaseUnavailable):
                    _log.exception("the doorbell crashed")
                self._disconnect(str(error))
            await self._clock.sleep(self._pause_seconds)
            self._pause_seconds = min(2 * self._pause_seconds, MAX_PAUSE_SECONDS)

    async def keep_catching_up(self) -> None:
        """Check all agents whenever a ring may have been missed."""
        while True:
            await self._must_catch_up.wait()
            self._must_catch_up.clear()
            try:
                await self._catch_up()
            except StorageError as error:  # the pool has reported it
                _log.debug("the catch-up of the doorbell failed and is tried again", error=str(error))
                self._must_catch_up.set()
            except Exception:  # the outermost edge of the task
                _log.exception("the catch-up of the doorbell crashed")
            await self._clock.sleep(CATCH_UP_SECONDS)

    async def _listen(self, connection: aiopg.Connection) -> None:
        """Receive rings until the connection is lost."""
        # The probe is a task of its own, so that `get` is never cancelled: aiopg would drop what it holds.
        probing = asyncio.create_task(self._keep_probing(connection), name="doorbell probe")
        try:
            while True:
                ring = await connection.notifies.get()
                self._receive(ring.payload)
        finally:
            probing.cancel()
            await asyncio.wait({probing})

    async def _keep_probing(self, connection: aiopg.Connection) -> None:
        """Listen on this connection, and check every few seconds that it hears its own probe.

        The connection is closed whatever the reason for the end, so that the task waiting for a ring notices.
        aiopg raises CancelledError even if it was the server that cancelled a statement.
        """
        try:
            with _limit(connection):
                await self._execute(connection, LISTEN)
            await self._probe_once(connection)
            self._connect()
            while True:
                await self._clock.sleep(PROBE_SECONDS)
                await self._probe_once(connection)
                self._pause_seconds = MIN_PAUSE_SECONDS
        except psycopg2.Error as error:
            connection.notifies.close(error)
        finally:
            connection.close()

    async def _probe_once(self, connection: aiopg.Connection) -> None:
        self._probe = PROBE + secrets.token_hex(8)
        self._probe_heard.clear()
        with _limit(connection):
            await self._execute(connection, RING, self._probe)
            await self._probe_heard.wait()

    async def _execute(self, connection: aiopg.Connection, sql: str, *args: str) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(sql, args)

    def _receive(self, payload: str) -> None:
        self.last_heard_at = self._clock.now()
        if payload.startswith(PROBE):
            if payload == self._probe:
                self._probe_heard.set()
        elif payload == EVENTS:
            self._on_ring([])
        elif agents := parse_ring(payload):
            self._on_ring(agents)
        else:
            self._must_catch_up.set()

    def _connect(self) -> None:
        self._has_connected.set()
        if self.away_since is not None:
            self.away_since = None
            self._report("")
            self._must_catch_up.set()

    def _disconnect(self, reason: str) -> None:
        self.reason = reason
        if self.away_since is None:
            self.away_since = self._clock.now()
        self._report(reason)


@contextmanager
def _limit(connection: aiopg.Connection) -> Iterator[None]:
    """Report the connection as lost to the task that waits for a ring if the block takes too long."""
    reason = f"it did not hear its own probe within {ANSWER_SECONDS:g} s"
    deadline = asyncio.get_running_loop().call_later(
        ANSWER_SECONDS, connection.notifies.close, DatabaseUnavailable(reason)
    )
    try:
        yield
    finally:
        deadline.cancel()


def parse_ring(payload: str) -> list[UUID]:
    """Return the agents named by a payload: ids separated by spaces. Empty for any other payload."""
    try:
        return [UUID(word) for word in payload.split(" ")]
    except ValueError:
        return []
