"""Membership: this process is one of several equal nodes on the database, until it leaves or is found dead.

Twice a second each node counts a beat in its row of the table `node`, on a connection of its own, and reads
the other rows. That connection holds the lock NODE with the node's number, those of its pool share MEMBER
(`storage.postgres.connections`).

A node that is found dead (`storage.postgres.node`) is condemned first, so that it gets no new connection.
Then those that it has are terminated, and once none is left it is called dead: nothing of it can commit any
more. Each living node does this; all of it may be done several times.

A server that was promoted may lack the latest rows, or give a number again. So the `life` decides whose a row
is, and a node that does not find its own ends.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from time import monotonic as monotonic_seconds
from types import MappingProxyType
from typing import Any
from uuid import UUID

import structlog

from storage.errors import DatabaseUnavailable, NodeEnded
from storage.ids import new_id
from storage.postgres.connections import (
    LEADER,
    MEMBER,
    MIGRATION,
    NODE,
    OLD_MEMBER,
    Connection,
    connect,
    is_dead,
    prepare,
)
from storage.postgres.migrations import find_migrator, list_pending
from storage.postgres.node import Node as Node  # the modules above import it from here
from storage.postgres.node import Witness, has_ended, own_process, owner_of, read_living, refuse_beside
from storage.postgres.server_clock import Lead, ServerClock
from storage.postgres.statement import from_row

PROTOCOL = 1  # of what nodes tell each other, and of how they share the work; it rises with each change
MAX_PROTOCOL_DISTANCE = 1  # between nodes that live together
BEAT_SECONDS = 0.5
CONFIRMED_SECONDS = 1.5
TRUSTED_SECONDS = 3.5  # after the confirmation; both together are less than it takes to find a node dead
ALONE_TRUSTED_SECONDS = 58.5  # a restart of the server fits into it
POLL_SECONDS = 0.25  # between two attempts to connect or to join
BURIAL_SECONDS = 0.02  # between two looks at the connections of a condemned node
ANSWER_SECONDS = 3.0  # a connection silent for longer is lost
REPEAT_SECONDS = 60.0  # between two lines in the log
FOUND_DEAD = "other nodes have found this one dead"
BUCKETS = 1024

Sleep = Callable[[float], Awaitable[None]]
Report = Callable[[str], None]  # why a connection is lost; blank once it works

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def join(
    url: str,
    sleep: Sleep,
    report: Report = lambda _: None,
    *,
    name: str,
    version: str,
    roles: Sequence[str],
    now: Callable[[], datetime] | None = None,
    monotonic: Callable[[], float] = monotonic_seconds,
) -> AsyncIterator["Membership"]:
    """Become a node, and leave at the end of the block. Wait while an instance of an older release leads.

    Raise NodesRemain if living nodes have a protocol with which that of this one does not go together.
    Failures of the connection are passed to `report`, which may be exchanged later. The server's clock is
    compared with `now`, unless both are of one machine.
    """
    membership = Membership(report, name, version, roles, now, monotonic)
    taking_part = asyncio.create_task(membership.take_part(url, sleep), name="membership")
    joined = asyncio.create_task(membership.wait_until_confirmed(), name="membership joined")
    try:
        await asyncio.wait({taking_part, joined}, return_when=asyncio.FIRST_COMPLETED)
        if taking_part.done():
            taking_part.result()
        yield membership
    finally:
        joined.cancel()
        await asyncio.gather(joined, return_exceptions=True)
        await membership.close(taking_part)


class Membership:
    """This process as a node: its number, the other nodes, and whether it may act at the moment.

    `nodes` are all that are not dead, as the last beat has read them, `others` those without this one. One of
    them does for all what one must do: `chores_node_id`, the oldest that has this role.
    `facts` returns what the next beat publishes. `changed` is set when a node came, went or changed its
    state, when this one's confirmation was lost or is back, and at its end.
    """

    def __init__(
        self,
        report: Report,
        name: str,
        version: str,
        roles: Sequence[str],
        now: Callable[[], datetime] | None,
        monotonic: Callable[[], float],
    ) -> None:
        self.node_id = 0  # until it has joined; the first number is 1
        self.life = new_id()
        self.nodes: Mapping[int, Node] = MappingProxyType({})
        self.living_ids: Collection[int] = ()
        self.others: Sequence[Node] = ()
        self.starts_runs = False  # it has the role, and does not leave
        self.chores_node_id: int | None = None
        self.does_chores = False  # that is this node
        self.changed = asyncio.Event()
        self.facts: Callable[[], Mapping[str, Any]] = dict
        # Called with the seconds to add to this machine's time; 0 if it agrees with the server's within 5 ms.
        self.correct: Callable[[float], None] = lambda _: None
        self.end_reason = ""  # why the node has ended, if nobody has asked for that
        self.report = report
        self._description = (name, version, PROTOCOL, list(roles), own_process())
        self._monotonic = monotonic
        self._now = now
        self._server_clock = ServerClock()
        self._state = "alive"
        self._beaten_at, self._confirmed_until = monotonic(), float("-inf")
        self._lapse: asyncio.TimerHandle | None = None
        self._newest_id = 0
        self._owners: dict[int, int | None] = {}  # of buckets
        self._witness = Witness(monotonic())
        self._connection: Connection | None = None
        self._ended = asyncio.Event()
        self._beaten = asyncio.Event()  # by the next beat, which leaves a new event
        self._hurry = asyncio.Event()
        self._is_closing = False

    def __repr__(self) -> str:
        return f"<Membership of node {self.node_id}: {'confirmed' if self.is_confirmed else 'not confirmed'}>"

    @property
    def is_confirmed(self) -> bool:
        """Return whether the last beat began so recently that nobody can have taken this node for dead."""
        return self._monotonic() <= self._confirmed_until

    def trusted_until(self) -> float:
        """Return until when, on the monotonic clock, processes that this node has started may go on.

        A little later others may have taken it for dead. If there was none, one must join before that.
        """
        return self._confirmed_until + (TRUSTED_SECONDS if self.others else ALONE_TRUSTED_SECONDS)

    @property
    def staying_ids(self) -> Collection[int]:
        """Return the nodes that start runs."""
        return [node.id for node in self.nodes.values() if node.starts_runs]

    @property
    def backend(self) -> int | None:
        """Return the server's process for the beat's connection; None while there is none."""
        connection = self._connection
        return None if connection is None or is_dead(connection) else connection.get_server_pid()

    def is_living(self, node_id: int) -> bool:
        """Return whether the node is not dead, or has joined since the last beat."""
        return node_id in self.nodes or node_id > self._newest_id

    def is_leaving(self, node_id: int) -> bool:
        """Return whether the node starts no runs: it leaves, or does not have the role."""
        return node_id in self.nodes and not self.nodes[node_id].starts_runs

    def name_of(self, node_id: int) -> str:
        """Return the name of a node, or "" if it is dead or has joined since the last beat."""
        return self.nodes[node_id].name if node_id in self.nodes else ""

    def seconds_since_beat(self, node_id: int) -> float:
        """Return for how long no further beat of a living node was seen."""
        now = self._monotonic()
        if node_id == self.node_id:
            return now - self._beaten_at
        return self._witness.silence_of(self.nodes[node_id], now)

    def responsible_for(self, agent_id: UUID) -> int | None:
        """Return the node that acts on an agent which no node attends; None if no node starts runs."""
        bucket = agent_id.int % BUCKETS
        if bucket not in self._owners:
            self._owners[bucket] = owner_of(bucket, self.nodes.values())
        return self._owners[bucket]

    async def wait_until_confirmed(self) -> None:
        """Wait until this node may act. Raise NodeEnded if it never may again."""
        while not self.is_confirmed:
            if self._ended.is_set():
                raise NodeEnded(f"node {self.node_id} has ended")
            await self._beaten.wait()

    async def wait_until_ended(self) -> None:
        """Wait until this node has ended, for `end_reason`; its process must end then."""
        await self._ended.wait()

    async def leave(self) -> None:
        """Tell the others that this node begins nothing more. Wait a little for the beat that does so."""
        self._state = "leaving"
        self._hurry.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while not self._ended.is_set() and self.nodes[self.node_id].state != self._state:
                    await self._beaten.wait()

    async def close(self, taking_part: "asyncio.Task[None]") -> None:
        """End `take_part`, which buries this node if the database answers. Close its pool before."""
        self._is_closing = True
        self._hurry.set()
        if self.backend is not None:
            await asyncio.wait({taking_part}, timeout=ANSWER_SECONDS)
        taking_part.cancel()
        with suppress(asyncio.CancelledError):
            await taking_part

    async def take_part(self, url: str, sleep: Sleep) -> None:
        """Join and beat, reconnecting when necessary, until the node is closed or was found dead.

        Raise only what keeps it from joining; an unexpected error later ends the node.
        """
        try:
            while not self._ended.is_set() and not self._is_closing:
                try:
                    async with connect(url) as connection:
                        if await self._enter(connection, sleep):
                            await self._stay(connection, sleep)
                except DatabaseUnavailable as error:
                    self.report(str(error))
                    await sleep(POLL_SECONDS)
        except Exception as error:
            if not self.node_id:
                raise
            _log.exception("the beat crashed")
            self._end(f"its beat has failed: {error!r}")
        finally:
            self._end()

    async def _enter(self, connection: Connection, sleep: Sleep) -> bool:
        """Get this node's row and its locks. Return False if it was found dead."""
        async with asyncio.timeout(ANSWER_SECONDS):
            await prepare(connection, node=None)
        if not self.node_id:
            await self._wait_for_others(connection, sleep)
            await _fence_old_release(connection, sleep)
            self.life = new_id()  # of no row that an attempt without an answer has left
            self.node_id = await self._insert(connection)
            _log.info("node joined", node_id=self.node_id)
        elif not await _is_kept(connection, self.node_id, self.life):
            self._end(f"{FOUND_DEAD} while it had no connection")
            return False
        await connection.execute(LOCK, NODE, self.node_id, timeout=ANSWER_SECONDS)
        await connection.execute(LAZY_COMMITS, timeout=ANSWER_SECONDS)
        self.report("")
        return True

    async def _insert(self, connection: Connection) -> int:
        """Return the number of this node's new row. Nobody migrates or joins at the same time."""
        async with asyncio.timeout(ANSWER_SECONDS), connection.transaction():
            await connection.execute(LOCK_FOR_TRANSACTION, *MIGRATION)
            await list_pending(connection)  # raises SchemaMismatch if a newer version has migrated
            living = await read_living(connection)
            strangers = [node for node in living if abs(node.protocol - PROTOCOL) > MAX_PROTOCOL_DISTANCE]
            refuse_beside(strangers, f"a node with protocol {PROTOCOL} cannot join")
            return int(await connection.fetchval(INSERT, self.life, *self._description))

    async def _wait_for_others(self, connection: Connection, sleep: Sleep) -> None:
        """Wait while a migration is under way, or an instance of an older release leads."""
        next_line_at = self._monotonic()
        while (migrator := await find_migrator(connection)) or not await connection.fetchval(
            TRY_LOCK, *LEADER, timeout=ANSWER_SECONDS
        ):
            self.report("")
            if self._monotonic() >= next_line_at:
                if migrator:
                    _log.warning("waiting until a migration of the database has ended", by=migrator)
                else:
                    _log.warning("waiting until the instance of an older release ends, which serves alone")
                next_line_at += REPEAT_SECONDS
            await sleep(POLL_SECONDS)

    async def _stay(self, connection: Connection, sleep: Sleep) -> None:
        """Beat until the node ends. Raise when the connection is lost, at once if it is closed.

        A beat comes at once if something hurries.
        """
        connection.add_termination_listener(lambda _: self._hurry.set())
        self._connection = connection
        self._witness = Witness(self._monotonic())
        while await self._beat(connection):
            if self._is_closing:
                await self._bury_itself(connection, sleep)
                return
            is_burying = self.others and await _judge(
                connection, self._witness, self._monotonic(), self.others
            )
            pause = sleep(BURIAL_SECONDS if is_burying else BEAT_SECONDS)
            waits = [asyncio.ensure_future(pause), asyncio.ensure_future(self._hurry.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            self._hurry.clear()

    async def _beat(self, connection: Connection) -> bool:
        """Count a beat, and read the nodes. Return False if this one was found dead."""
        facts: Mapping[str, Any] = {}
        try:
            if self.others:  # one that joins is told by the next beat
                facts = self.facts()
        except Exception as error:  # a bug in what the others are told must not end this node
            _log.error("the facts of this node cannot be read", reason=repr(error))
        began_at, began = self._monotonic(), self._now and self._now()
        beat = (self.node_id, self.life, facts, self._state)
        rows = await connection.fetch(BEAT, *beat, timeout=ANSWER_SECONDS)
        nodes = {node.id: node for node in (from_row(Node, row) for row in rows)}
        if self.node_id not in nodes:
            self._end(FOUND_DEAD)
            return False
        if self._now and began and rows[0]["server_time"]:
            low, high = rows[0]["server_time"] - self._now(), rows[0]["server_time"] - began
            self._server_clock.observe(Lead(began_at, low, high))
            self.correct(self._server_clock.correction)
        self._newest_id = rows[0]["newest_id"]
        self._confirm(nodes, began_at)
        return True

    def _confirm(self, nodes: Mapping[int, Node], began_at: float) -> None:
        """Note the nodes that a beat has read, and that this one may act for a while."""
        states = {node.id: node.state for node in nodes.values()}
        is_changed = not self.is_confirmed or states != {node.id: node.state for node in self.nodes.values()}
        self.nodes, self.living_ids = nodes, nodes.keys()
        self.others = [node for node in nodes.values() if node.id != self.node_id]
        self._beaten_at, self._confirmed_until = began_at, began_at + CONFIRMED_SECONDS
        if self._lapse is not None:
            self._lapse.cancel()
        left = self._confirmed_until - self._monotonic()
        self._lapse = asyncio.get_running_loop().call_later(left, self.changed.set)
        if is_changed:
            self.starts_runs = nodes[self.node_id].starts_runs
            self.chores_node_id = min((node.id for node in nodes.values() if node.does_chores), default=None)
            self.does_chores = self.chores_node_id == self.node_id
            self._owners.clear()
            self.changed.set()
        self._beaten.set()
        self._beaten = asyncio.Event()

    async def _bury_itself(self, connection: Connection, sleep: Sleep) -> None:
        """Call this node dead once its pool's connections are gone."""
        while backends := (await _read_backends(connection, MEMBER)).get(self.node_id):
            await connection.execute(TERMINATE, backends, timeout=ANSWER_SECONDS)
            await sleep(BURIAL_SECONDS)
        if await _change_durably(connection, BURY, self.node_id, self.life):
            _log.info("node left", node_id=self.node_id)

    def _end(self, reason: str = "") -> None:
        if reason:
            self.end_reason = reason
            _log.error("node ended", node_id=self.node_id, reason=reason)
        self._confirmed_until = float("-inf")
        if self._lapse is not None:
            self._lapse.cancel()
        self._ended.set()
        self.changed.set()
        self._beaten.set()


TRY_LOCK = "SELECT pg_try_advisory_lock_shared($1, $2)"
LOCK = "SELECT pg_advisory_lock($1, $2)"
LOCK_FOR_TRANSACTION = "SELECT pg_advisory_xact_lock($1, $2)"

# A beat that is lost with the server costs nothing. What all nodes must agree on is written durably.
LAZY_COMMITS = "SET synchronous_commit = off"
DURABLY = "SET LOCAL synchronous_commit TO DEFAULT"

INSERT = """
    INSERT INTO node (life, name, version, protocol, roles, process) VALUES ($1, $2, $3, $4, $5, $6)
    RETURNING id
"""

# The clock is read only if it is another machine's.
BEAT = """
    WITH own AS (
        UPDATE node SET beat = beat + 1, facts = $3, state = $4
        WHERE id = $1 AND life = $2 AND state IN ('alive', 'leaving')
        RETURNING *
    )
    SELECT id, life, name, version, protocol, roles, state, beat, facts, joined_at, process,
        (SELECT max(id) FROM node) AS newest_id,
        CASE WHEN inet_server_addr() IS NOT NULL THEN clock_timestamp() END AS server_time
    FROM (SELECT * FROM own UNION ALL SELECT * FROM node WHERE id <> $1 AND state <> 'dead') AS living
"""


CONDEMN = """
    UPDATE node SET state = 'condemned'
    WHERE id = $1 AND life = $2 AND beat = $3 AND state IN ('alive', 'leaving')
    RETURNING true
"""

BURY = """
    UPDATE node SET state = 'dead', ended_at = clock_timestamp()
    WHERE id = $1 AND life = $2 AND state <> 'dead'
    RETURNING true
"""

SELECT_BACKENDS = """
    SELECT objid AS node_id, pid FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND classid = ANY ($1::bigint[]::oid[]) AND objsubid = 2
        AND pid <> pg_backend_pid()
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

TERMINATE = "SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid"


async def _read_backends(connection: Connection, *classes: int) -> dict[int, list[int]]:
    """Return the server's processes that hold locks of these classes, but for this connection's, by node."""
    backends: dict[int, list[int]] = {}
    for row in await connection.fetch(SELECT_BACKENDS, classes, timeout=ANSWER_SECONDS):
        backends.setdefault(row["node_id"], []).append(row["pid"])
    return backends


async def _judge(connection: Connection, witness: Witness, now: float, others: Sequence[Node]) -> bool:
    """Condemn nodes that are dead, and bury the condemned. Return whether that still goes on."""
    backends = await _read_backends(connection, NODE, MEMBER)
    condemned = [node for node in others if node.state == "condemned"]
    for node in condemned:
        # Read after it was condemned: no connection that is not among these can come any more.
        await _bury(connection, node.id, node.life, backends.get(node.id, []))
    ended = [node.id for node in others if has_ended(node.process)]
    verdicts = witness.judge(now, others, backends, ended)
    for node in others:
        if node.id in verdicts and await _change_durably(connection, CONDEMN, node.id, node.life, node.beat):
            _log.warning("node condemned", node_id=node.id, name=node.name, reason=verdicts[node.id])
    return bool(condemned or verdicts)


async def _bury(connection: Connection, node_id: int, life: UUID, backends: Collection[int]) -> None:
    """Terminate the backends of another node, or call it dead if it has none."""
    if backends:
        await connection.execute(TERMINATE, backends, timeout=ANSWER_SECONDS)
    elif await _change_durably(connection, BURY, node_id, life):
        _log.info("node dead", node_id=node_id)


async def _change_durably(connection: Connection, sql: str, *args: object) -> bool:
    """Change a row of `node` so that it survives a crash of the server. Return whether there was one."""
    async with asyncio.timeout(ANSWER_SECONDS), connection.transaction():
        await connection.execute(DURABLY)
        return bool(await connection.fetchval(sql, *args))


# An epoch without a leader: no instance of an older release has led since there are nodes.
END_EPOCH = "UPDATE instance SET epoch = epoch + 1, leader_id = NULL WHERE leader_id IS NOT NULL"


async def _fence_old_release(connection: Connection, sleep: Sleep) -> None:
    """Wait until no transaction of an instance of an older release can commit."""
    await connection.execute(END_EPOCH, timeout=ANSWER_SECONDS)
    while backends := await _read_backends(connection, OLD_MEMBER):
        pids = [pid for pids in backends.values() for pid in pids]
        _log.warning("terminating connections of an older release", backends=pids)
        await connection.execute(TERMINATE, pids, timeout=ANSWER_SECONDS)
        await sleep(BURIAL_SECONDS)


IS_KEPT = """
    SELECT leader_id IS NULL AND EXISTS (
        SELECT FROM node WHERE id = $1 AND life = $2 AND state IN ('alive', 'leaving')
    ) FROM instance
"""


async def _is_kept(connection: Connection, node_id: int, life: UUID) -> bool:
    """Return whether a node that lost its connection may go on: neither is it dead, nor led an older release.

    Its former connection may still hold its lock: then that one is terminated.
    """
    if not await connection.fetchval(TRY_LOCK, *LEADER, timeout=ANSWER_SECONDS):
        return False
    if not await connection.fetchval(IS_KEPT, node_id, life, timeout=ANSWER_SECONDS):
        return False
    former = (await _read_backends(connection, NODE)).get(node_id, [])
    await connection.execute(TERMINATE, former, timeout=ANSWER_SECONDS)
    return True


async def has_nodes(url: str) -> bool:
    """Return whether some node, or an instance of an older release, is connected."""
    async with connect(url) as connection:
        lock_class, lock = LEADER
        return lock in await _read_backends(connection, lock_class)


async def wait_until_one_left(
    url: str,
    node_ids: Collection[int],
    sleep: Sleep,
    report: Report = lambda _: None,
    monotonic: Callable[[], float] = monotonic_seconds,
) -> None:
    """Wait until one of these nodes is dead. One that is found dead is buried, as every node does it.

    Failures of the connection are passed to `report`, and the connection is replaced.
    """
    while True:
        try:
            async with connect(url) as connection:
                report("")
                return await _watch(connection, node_ids, sleep, monotonic)
        except DatabaseUnavailable as error:
            report(str(error))
            await sleep(POLL_SECONDS)


async def _watch(
    connection: Connection, node_ids: Collection[int], sleep: Sleep, monotonic: Callable[[], float]
) -> None:
    witness = Witness(monotonic())
    while True:
        async with asyncio.timeout(ANSWER_SECONDS):
            living = await read_living(connection)
        if not {node.id for node in living}.issuperset(node_ids):
            return
        await _judge(connection, witness, monotonic(), living)
        await sleep(POLL_SECONDS)
