"""The doorbell: aiopg's listener, which learns at once of rows that other programs and other nodes write.

Triggers on the tables (`storage/migrations`) ring it on a PostgreSQL channel. A ring names the agents it
concerns, or none, which means that all agents must be checked. It carries nothing that is not in the tables,
so a lost ring only costs time, until the next scan. After an outage it listens before all agents are checked,
so no row falls between the two. Nodes ring each other on channels of their own (`storage.postgres.bells`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID, uuid4

import aiopg
import psycopg2
import structlog
from psycopg2.extensions import parse_dsn

from storage.errors import DatabaseRefused, DatabaseUnavailable, StorageError
from storage.postgres.bells import CHANNEL_OF_NODE, LIVE, parse_bell
from storage.postgres.connections import WRITABLE, connect_to_first_host, host_of
from storage.postgres.membership import Report, Sleep
from storage.postgres.translation import failure_reason

CHANNEL = "hostsvc_doorbell"
LISTEN = f"LISTEN {CHANNEL}; LISTEN {CHANNEL_OF_NODE}"
RING = f"SELECT pg_notify('{CHANNEL}', %s)"

PROBE = "probe "
EVENTS = "events"  # a transaction of another program has written events
PROBE_SECONDS = 5.0
ANSWER_SECONDS = 3.0  # a connection silent for longer is lost
RECONNECT_SECONDS = 0.25

_log = structlog.get_logger(__name__)


class Doorbell:
    """Hears the rings for one node. While it cannot, `away_since` is set and `reason` says why.

    `on_ring` is called with the agents that a ring names, none for a ring about events, `on_bell` with the
    kind of another node's bell and the ids that it names, `on_live` with a text that another node sends.
    `report` is called with the reason when the connection is lost or cannot be made, and with "" when it is
    back.
    """

    def __init__(
        self,
        on_ring: Callable[[Sequence[UUID]], None],
        now: Callable[[], datetime],
        report: Report,
        *,
        node_id: int = 0,
        on_bell: Callable[[str, Sequence[UUID]], None] = lambda _, __: None,
        on_live: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.away_since: datetime | None = None
        self.reason = ""
        self._on_ring, self._now, self._report = on_ring, now, report
        self._node_id, self._on_bell, self._on_live = node_id, on_bell, on_live
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_missed = asyncio.Event()
        self._probe, self._probe_heard = "", asyncio.Event()

    @asynccontextmanager
    async def listening(self, url: str, sleep: Sleep) -> AsyncIterator[None]:
        """Listen until the block ends, reconnecting by itself. Raise a StorageError if it fails at first."""
        task = asyncio.create_task(self._keep_listening(url, sleep), name="doorbell")
        try:
            await self._connected
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def catch_up(self, check_all: Callable[[], Awaitable[None]]) -> None:
        """Wait until rings may have been missed, or one names nobody; then check all agents."""
        await self._has_missed.wait()
        self._has_missed.clear()
        try:
            await check_all()
        except BaseException:
            self._has_missed.set()
            raise

    async def _keep_listening(self, url: str, sleep: Sleep) -> None:
        while True:
            try:
                connection = await connect_to_first_host(url, _connect)
                await self._listen(connection, sleep)
            except Exception as error:  # the outermost edge of the task
                if not isinstance(error, StorageError | psycopg2.Error):
                    _log.exception("the doorbell crashed")
                self._disconnect(error)
            await sleep(RECONNECT_SECONDS)

    async def _listen(self, connection: aiopg.Connection, sleep: Sleep) -> None:
        # The probe is a task of its own, so that `get` is never cancelled: aiopg would drop what it holds.
        probing = asyncio.create_task(self._keep_probing(connection, sleep), name="doorbell probe")
        try:
            while True:
                notify = await connection.notifies.get()  # raises once the connection is lost
                self._receive(notify.channel, notify.payload)
        finally:
            probing.cancel()
            await asyncio.wait({probing})

    async def _keep_probing(self, connection: aiopg.Connection, sleep: Sleep) -> None:
        """Listen, and ring every few seconds. Close the connection unless it hears that in time.

        It is closed at any end: aiopg raises CancelledError even if the server cancelled a statement.
        """
        late = DatabaseUnavailable(f"it did not hear its own probe within {ANSWER_SECONDS:g} s")
        call_later = asyncio.get_running_loop().call_later
        deadline = call_later(ANSWER_SECONDS, connection.notifies.close, late)
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(LISTEN.format(self._node_id))
                while True:
                    self._probe = PROBE + uuid4().hex
                    self._probe_heard.clear()
                    await cursor.execute(RING, (self._probe,))
                    await self._probe_heard.wait()
                    deadline.cancel()
                    self._connect()
                    await sleep(PROBE_SECONDS)
                    deadline = call_later(ANSWER_SECONDS, connection.notifies.close, late)
        except psycopg2.Error as error:
            connection.notifies.close(error)
        finally:
            deadline.cancel()
            connection.close()

    def _receive(self, channel: str, payload: str) -> None:
        if channel != CHANNEL:
            kind, ids = parse_bell(payload)
            if payload.startswith(LIVE):
                self._on_live(payload.removeprefix(LIVE))
            elif kind:
                self._on_bell(kind, ids)
            return
        if payload == self._probe:
            self._probe_heard.set()
        elif payload == EVENTS:
            self._on_ring(())
        elif agents := parse_ring(payload):
            self._on_ring(agents)
        elif not payload.startswith(PROBE):
            self._has_missed.set()

    def _connect(self) -> None:
        if not self._connected.done():
            self._connected.set_result(None)
        if self.away_since is not None:
            self.away_since = None
            self._has_missed.set()
            self._report("")

    def _disconnect(self, error: Exception) -> None:
        self.reason = failure_reason(error)
        if not self._connected.done():
            is_known = isinstance(error, StorageError)
            self._connected.set_exception(error if is_known else DatabaseUnavailable(self.reason))
        self.away_since = self.away_since or self._now()
        self._report(self.reason)


def parse_ring(payload: str) -> list[UUID]:
    """Return the agents named by a payload: ids separated by spaces. Empty for any other payload."""
    try:
        return [UUID(word) for word in payload.split(" ")]
    except ValueError:
        return []


async def _connect(url: str) -> aiopg.Connection:
    """Connect to the URL of one host.

    asyncio finds an address that accepts: libpq would look up the name while the event loop waits, and aiopg
    would go on watching the socket of an address that refused.
    """
    try:
        target = {"application_name": "hostsvc doorbell"} | parse_dsn(url)
        host = target.get("hostaddr") or target.get("host", "")
        if host and not host.startswith(("/", "@")):
            loop, port = asyncio.get_running_loop(), int(target.get("port", 5432))
            transport, _ = await loop.create_connection(asyncio.Protocol, host, port)
            target["hostaddr"] = transport.get_extra_info("peername")[0]
            transport.abort()
        return await aiopg.connect(
            # No timeouts of aiopg's own: before Python 3.12 `asyncio.wait_for` may lose a cancellation. aiopg
            # takes None for none, but its annotation does not say so.
            timeout=None,  # type: ignore[arg-type]
            target_session_attrs=WRITABLE.value,
            enable_hstore=False,
            enable_json=False,
            enable_uuid=False,
            **target,
        )
    except psycopg2.ProgrammingError as error:
        raise DatabaseRefused(f"the database URL cannot be used: {' '.join(str(error).split())}") from error
    except psycopg2.Error as error:
        raise DatabaseUnavailable(failure_reason(error, host_of(url))) from error
