"""Leadership: one instance leads, and transactions that its predecessor left open cannot commit.

The leader holds an advisory lock for life, on a connection of its own. Standbys only *try* to take it,
because a session waiting for a lock blocks those behind it and holds back vacuum. Winning increments
`instance.epoch`. Each pool connection of an instance holds a shared lock that contains its epoch
(`storage.postgres.pool`), so the next leader can find the connections of its predecessor and terminate them.

After a failover nobody holds a lock on the promoted server, so the leader competes for it again. It goes on
with its epoch if the server has that, and ends if it does not: then somebody else has led there, or the
server has not received its election.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import structlog

from storage.errors import DatabaseUnavailable
from storage.ids import new_id
from storage.postgres.connections import (
    LEADER,
    LEADER_EXISTS,
    MEMBER,
    WRITABLE,
    Connection,
    Epoch,
    connect,
    read_epoch,
)

POLL_SECONDS = 0.25  # of a standby, and between two attempts to connect
HEARTBEAT_SECONDS = 1.0
FENCE_POLL_SECONDS = 0.02
GRACE_SECONDS = 1.0  # for the predecessor's connections to close by themselves
ANSWER_SECONDS = 3.0  # a connection silent for longer is lost

# With these settings the server notices in about 5 s that the leader's host has vanished. By then that host
# itself has given up the lead, after HEARTBEAT_SECONDS and ANSWER_SECONDS. They have no effect on a Unix
# socket.
KEEPALIVE = {
    "tcp_keepalives_idle": "1",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "5000",
}

Sleep = Callable[[float], Awaitable[None]]
Report = Callable[[str], None]  # why a connection is lost; blank once it works

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def lead(url: str, sleep: Sleep, report: Report = lambda _: None) -> AsyncIterator["Leadership"]:
    """Stand by until this instance leads; leaving the context gives up the lead.

    Failures of the connection are passed to `report`, which may be exchanged once the instance leads.
    """
    leadership = Leadership(report)
    campaign = asyncio.create_task(leadership.campaign(url, sleep), name="leadership")
    elected = asyncio.create_task(leadership.wait_until_elected(), name="leadership elected")
    try:
        await asyncio.wait({campaign, elected}, return_when=asyncio.FIRST_COMPLETED)
        if campaign.done():
            campaign.result()
        yield leadership
    finally:
        elected.cancel()
        campaign.cancel()
        with suppress(asyncio.CancelledError):
            await campaign


async def has_leader(url: str) -> bool:
    """Return whether some instance leads at the moment."""
    async with connect(url) as connection:
        return bool(await connection.fetchval(LEADER_EXISTS, *LEADER, timeout=ANSWER_SECONDS))


class Leadership:
    """The lead of one instance, whose `epoch` no other instance ever gets.

    The event `changed` is set whenever the lead is won or its connection is lost.
    """

    def __init__(self, report: Report = lambda _: None) -> None:
        self.epoch = Epoch(0, new_id())  # until it is elected; the first number is 1
        self.report = report
        self.changed = asyncio.Event()
        self._connection: Connection | None = None
        self._elected = asyncio.Event()
        self._over = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Leadership of epoch {self.epoch.number}: {'held' if self.is_held() else 'not held'}>"

    def is_held(self) -> bool:
        """Return whether the leader's connection is alive. Without it no run may start; it may come back."""
        return self._connection is not None and not self._connection.is_closed()

    async def wait_until_elected(self) -> None:
        await self._elected.wait()

    async def wait_until_lost(self) -> None:
        """Wait until another instance has led since; this one must end then."""
        await self._over.wait()

    async def campaign(self, url: str, sleep: Sleep) -> None:
        """Win the lead and keep it, reconnecting when necessary, until another instance has led."""
        try:
            while not self._over.is_set():
                try:
                    async with connect(url, WRITABLE, **KEEPALIVE) as connection:
                        if await self._win(connection, sleep):
                            await self._hold(connection, sleep)
                except DatabaseUnavailable as error:
                    self.report(str(error))
                    await sleep(POLL_SECONDS)
        finally:
            self._over.set()

    async def _win(self, connection: Connection, sleep: Sleep) -> bool:
        """Take the lock on this connection. Return False if another instance has led since this one did."""
        while not await connection.fetchval(TRY_LOCK, *LEADER, timeout=ANSWER_SECONDS):
            if await self._outdated(connection):
                return False
            if self.epoch.number == 0:
                self.report("")  # a standby needs no more than the connection
            await sleep(POLL_SECONDS)
        if self.epoch.number == 0:
            number = await _begin_epoch(connection, self.epoch.leader_id, sleep)
            self.epoch = Epoch(number, self.epoch.leader_id)
            _log.info("lead won", epoch=self.epoch.number)
        elif await self._outdated(connection):
            return False
        self.report("")
        self._connection = connection
        self.changed.set()
        self._elected.set()
        return True

    async def _hold(self, connection: Connection, sleep: Sleep) -> None:
        """Send a heartbeat every second. Raise when the connection is lost, at once if it is closed."""
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_close(_: object) -> None:
            self.changed.set()
            closed.set_result(None)

        connection.add_termination_listener(on_close)
        while True:
            pause = asyncio.ensure_future(sleep(HEARTBEAT_SECONDS))
            try:
                await asyncio.wait({pause, closed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
            await connection.execute(HEARTBEAT, timeout=ANSWER_SECONDS)

    async def _outdated(self, connection: Connection) -> bool:
        """Return whether another instance has led since this one did; if so, end the campaign."""
        if self.epoch.number and await read_epoch(connection, ANSWER_SECONDS) != self.epoch:
            _log.error("lead lost", epoch=self.epoch.number, reason="another instance has taken it")
            self._over.set()
        return self._over.is_set()


TRY_LOCK = "SELECT pg_try_advisory_lock($1, $2)"

HEARTBEAT = "SELECT 1"

BUMP_EPOCH = "UPDATE instance SET epoch = epoch + 1, leader_id = $1 RETURNING epoch"


async def _begin_epoch(connection: Connection, leader_id: UUID, sleep: Sleep) -> int:
    """Take the next epoch, then wait until no transaction of an older one can commit. Return its number."""
    epoch: int = await connection.fetchval(BUMP_EPOCH, leader_id, timeout=ANSWER_SECONDS)
    waited = 0.0
    while rows := await connection.fetch(SELECT_OUTDATED, MEMBER, epoch, timeout=ANSWER_SECONDS):
        if waited >= GRACE_SECONDS:
            # A killed process is gone at once, but its backend may still be running its last statement.
            pids = [row["pid"] for row in rows]
            _log.warning("terminating connections of an older epoch", epoch=epoch, backends=pids)
            await connection.execute(TERMINATE, pids, timeout=ANSWER_SECONDS)
        await sleep(FENCE_POLL_SECONDS)
        waited += FENCE_POLL_SECONDS
    return epoch


SELECT_OUTDATED = """
    SELECT pid FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND classid = $1 AND objid <> $2 AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

TERMINATE = "SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid"
