"""The doorbell: hears at once of rows that other programs write to the queue.

Triggers on the table (`storage/migrations`) ring it on a channel of PostgreSQL. A ring names the agents it
concerns, or none, which means that everything is to be looked at. It carries nothing that is not in the
tables, so a lost one costs time: until the next scan.

A connection that has died, or that only seems to live, is found out by a round trip every few seconds, and
replaced. The next one listens before everything is looked at, so no row falls between the two.
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
from storage.postgres.libpq import connect_by_libpq

LISTEN = "LISTEN hostsvc_doorbell"
RING = "SELECT pg_notify('hostsvc_doorbell', %s)"

PROBE = "probe "
PROBE_SECONDS = 5.0
ANSWER_SECONDS = 3.0  # a connection that is silent for longer is lost
MIN_PAUSE_SECONDS = 0.1  # before connecting anew; doubles until a connection has lasted
MAX_PAUSE_SECONDS = 5.0
CATCH_UP_SECONDS = 1.0  # everything is looked at no more often than this, however much it rings

OnRing = Callable[[Sequence[UUID]], None]
CatchUp = Callable[[], Awaitable[None]]

_log = structlog.get_logger(__name__)


class Clock(Protocol):
    """As much of time as is needed here."""

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


@asynccontextmanager
async def open_notify_listener(
    url: str, on_ring: OnRing, catch_up: CatchUp, clock: Clock
) -> AsyncIterator["NotifyListener"]:
    """The doorbell, once it has heard itself; raises if it cannot be put up, and afterwards puts itself up.

    `on_ring` is told for which agents it rang. `catch_up` is to look at everything: after an outage, and when
    it rang for nobody in particular.
    """
    doorbell = NotifyListener(on_ring, catch_up, clock)
    listening = asyncio.create_task(doorbell.keep_listening(url), name="doorbell")
    catching_up = asyncio.create_task(doorbell.keep_catching_up(), name="doorbell catch-up")
    wait_until_listening = asyncio.create_task(doorbell.wait_until_listening(), name="doorbell put up")
    tasks = {listening, catching_up, wait_until_listening}
    try:
        await asyncio.wait({listening, wait_until_listening}, return_when=asyncio.FIRST_COMPLETED)
        if listening.done():
            listening.result()
        yield doorbell
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class NotifyListener:
    """What an instance hears by. `away_since` is None while it hears; else `reason` says why not."""

    def __init__(self, on_ring: OnRing, catch_up: CatchUp, clock: Clock) -> None:
        self.away_since: datetime | None = None
        self.reason = ""
        self.last_heard_at: datetime | None = None  # by a ring or a probe
        self._on_ring = on_ring
        self._catch_up = catch_up
        self._clock = clock
        self._was_put_up = asyncio.Event()
        self._something_missed = asyncio.Event()
        self._probe = ""
        self._probe_heard = asyncio.Event()
        self._pause_seconds = MIN_PAUSE_SECONDS

    def __repr__(self) -> str:
        state = f"away since {self.away_since}" if self.away_since else "listening"
        return f"<Doorbell: {state}, last heard at {self.last_heard_at}>"

    async def wait_until_listening(self) -> None:
        """Returns when it has listened for the first time."""
        await self._was_put_up.wait()

    async def keep_listening(self, url: str) -> None:
        """Listen, over as many connections as it takes; raises if the first one is not to be had."""
        while True:
            try:
                async with connect_by_libpq(url) as connection:
                    await self._listen(connection)
            except Exception as error:  # the outermost edge of the task
                if not self._was_put_up.is_set():
                    raise
                if not isinstance(error, DatabaseUnavailable):
                    _log.exception("the doorbell failed")
                self._disconnect(str(error))
            await self._clock.sleep(self._pause_seconds)
            self._pause_seconds = min(2 * self._pause_seconds, MAX_PAUSE_SECONDS)

    async def keep_catching_up(self) -> None:
        """Look at everything whenever something may have been missed."""
        while True:
            await self._something_missed.wait()
            self._something_missed.clear()
            try:
                await self._catch_up()
            except StorageError as error:
                _log.warning("what the doorbell missed cannot be looked for", error=str(error))
                self._something_missed.set()
            except Exception:  # the outermost edge of the task
                _log.exception("looking for what the doorbell missed failed")
            await self._clock.sleep(CATCH_UP_SECONDS)

    async def _listen(self, connection: aiopg.Connection) -> None:
        """Hear until the connection is lost."""
        # Probing is a task of its own, so that nobody ever cancels `get`: aiopg would drop what it holds.
        proving = asyncio.create_task(self._keep_proving(connection), name="doorbell probe")
        try:
            while True:
                ring = await connection.notifies.get()
                self._receive(ring.payload)
        finally:
            proving.cancel()
            await asyncio.wait({proving})

    async def _keep_proving(self, connection: aiopg.Connection) -> None:
        """Listen on this connection, and let it hear itself every few seconds.

        However this ends, the connection is closed, so that whoever waits for a ring hears of it: aiopg
        raises CancelledError, too, when it was the server that cancelled a statement.
        """
        try:
            with _limit(connection):
                await self._say(connection, LISTEN)
            await self._prove(connection)
            self._connect()
            while True:
                await self._clock.sleep(PROBE_SECONDS)
                await self._prove(connection)
                self._pause_seconds = MIN_PAUSE_SECONDS
        except psycopg2.Error as error:
            connection.notifies.close(error)
        finally:
            connection.close()

    async def _prove(self, connection: aiopg.Connection) -> None:
        self._probe = PROBE + secrets.token_hex(8)
        self._probe_heard.clear()
        with _limit(connection):
            await self._say(connection, RING, self._probe)
            await self._probe_heard.wait()

    async def _say(self, connection: aiopg.Connection, sql: str, *args: str) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(sql, args)

    def _receive(self, payload: str) -> None:
        self.last_heard_at = self._clock.now()
        if payload.startswith(PROBE):
            if payload == self._probe:
                self._probe_heard.set()
        elif agents := agents_named(payload):
            self._on_ring(agents)
        else:
            self._something_missed.set()

    def _connect(self) -> None:
        self._was_put_up.set()
        if self.away_since is not None:
            _log.info("the doorbell is back", away_since=self.away_since.isoformat())
            self.away_since = None
            self._something_missed.set()

    def _disconnect(self, reason: str) -> None:
        self.reason = reason
        if self.away_since is None:
            self.away_since = self._clock.now()
            _log.warning("the doorbell is away", reason=reason)


@contextmanager
def _limit(connection: aiopg.Connection) -> Iterator[None]:
    """Whoever waits for a ring is told that the connection is lost if the block takes too long."""
    reason = f"it did not hear itself within {ANSWER_SECONDS:g} s"
    too_late = asyncio.get_running_loop().call_later(
        ANSWER_SECONDS, connection.notifies.close, DatabaseUnavailable(reason)
    )
    try:
        yield
    finally:
        too_late.cancel()


def agents_named(payload: str) -> list[UUID]:
    """For whom it rang: ids with blanks between; none where the payload is not of this form."""
    try:
        return [UUID(word) for word in payload.split(" ")]
    except ValueError:
        return []
