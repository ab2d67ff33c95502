"""A node, as the others see it, and the rules by which they find that it is dead.

A node is one life of one process. No clock of another machine is read: what counts is whether its locks are
held, whether its beat goes on, and, on the same machine, whether its process exists.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import UUID

from storage.errors import NodesRemain
from storage.postgres.connections import Connection

SETTLE_SECONDS = 5.0  # for all nodes to connect again after a restart of the server
NO_LOCK_SECONDS = 2.0
STUCK_SECONDS = 10.0  # longer than a connection may be silent, and than agents' processes outlive their node
STUCK_BEATS = 10  # of one's own: a machine that was suspended has seen nothing of the others


@dataclass(frozen=True, slots=True)
class Node:
    """A row of the table `node`; the migration describes its columns."""

    id: int
    life: UUID
    name: str
    version: str
    protocol: int
    roles: tuple[str, ...]
    state: str  # alive, leaving, condemned or dead
    beat: int
    facts: Mapping[str, Any] = field(repr=False)
    joined_at: datetime
    process: str = ""

    @property
    def starts_runs(self) -> bool:
        """Return whether agents may be attended here from now on."""
        return self.state == "alive" and "runs" in self.roles

    @property
    def does_chores(self) -> bool:
        """Return whether it may do what one node does for all."""
        return self.state == "alive" and "chores" in self.roles


# Read by newer versions, too, before they migrate: so these are the columns with which the table was created.
SELECT_LIVING = """
    SELECT id, life, name, version, protocol, roles, state, beat, joined_at, process
    FROM node WHERE state <> 'dead' ORDER BY id
"""


async def read_living(connection: Connection) -> list[Node]:
    """Return the nodes that are not dead, without their facts."""
    if not await connection.fetchval("SELECT to_regclass('node') IS NOT NULL"):
        return []
    return [Node(**row, facts={}) for row in await connection.fetch(SELECT_LIVING)]


def refuse_beside(nodes: Collection[Node], what: str) -> None:
    """Raise NodesRemain if there are nodes; `what` must wait until they have left."""
    if nodes:
        names = ", ".join(f"{node.name} (hostsvc {node.version}, protocol {node.protocol})" for node in nodes)
        message = f"{what} until these nodes have left: {names}"
        raise NodesRemain(message, frozenset(node.id for node in nodes))


@dataclass(slots=True)
class _Sighting:
    """A beat of a node: since when it has been the latest, and for how many own beats."""

    beat: int
    since: float
    own_beats: int = 0
    lockless_since: float | None = None


class Witness:
    """What one node has seen of the others over one of its connections, by its monotonic clock."""

    def __init__(self, connected_at: float) -> None:
        self._connected_at = connected_at
        self._sightings: dict[UUID, _Sighting] = {}

    def judge(
        self, now: float, others: Iterable[Node], holders: Collection[int], ended: Collection[int]
    ) -> dict[int, str]:
        """Note what one beat has read, and return which nodes are dead, with the reasons.

        `holders` are the ids of those that hold a lock, `ended` of those whose process has ended.
        """
        verdicts, sightings = {}, {}
        for node in others:
            seen = self._sightings.get(node.life)
            if seen is None or seen.beat != node.beat:
                seen = _Sighting(node.beat, now)
            seen.own_beats += 1
            if node.id in holders:
                seen.lockless_since = None
            elif seen.lockless_since is None:
                seen.lockless_since = now
            sightings[node.life] = seen
            reason = "its process has ended" if node.id in ended else self._reason(now, seen)
            if reason and node.state != "condemned":
                verdicts[node.id] = reason
        self._sightings = sightings
        return verdicts

    def silence_of(self, node: Node, now: float) -> float:
        """Return for how many seconds the beat of another node has stood still."""
        return now - self._sightings[node.life].since if node.life in self._sightings else 0.0

    def _reason(self, now: float, seen: _Sighting) -> str:
        if now < self._connected_at + SETTLE_SECONDS:
            return ""
        if seen.lockless_since is not None and now >= seen.lockless_since + NO_LOCK_SECONDS:
            return "it has no connection to the database"
        if now >= seen.since + STUCK_SECONDS and seen.own_beats > STUCK_BEATS:
            return "its beat has stopped"
        return ""


def own_process() -> str:
    """Return the identity of this process on its machine, or "" where the system does not tell it."""
    try:
        start = _start_of(os.getpid())
    except OSError:
        return ""
    return f"{_machine()}/{os.getpid()}/{start}" if start else ""


def has_ended(process: str) -> bool:
    """Return whether a process of this machine, as named by `own_process`, has ended.

    Return False if that cannot be known: it runs on another machine, or in another container.
    """
    try:
        *machine, pid, start = process.split("/")
        if "/".join(machine) != _machine():
            return False
        os.kill(int(pid), 0)
        return _start_of(int(pid)) != start
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False  # the process is not named, or belongs to another user


@cache
def _machine() -> str:
    """Return the id of the machine since it started, and that of the namespace in which PIDs are valid.

    Neither changes during the life of a process, and each beat asks for each other node.
    """
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot_id}/{os.stat('/proc/self/ns/pid').st_ino}"


def _start_of(pid: int) -> str:
    """Return when a process started, in ticks since the machine did; "" if only its exit code is left."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return "" if fields[0] in b"ZX" else fields[19].decode()


def owner_of(bucket: int, nodes: Iterable[Node]) -> int | None:
    """Return which node is responsible for a bucket of agents; None if no node starts runs.

    All that know the same nodes agree. Only the buckets of a node that comes or goes change their owner.
    """

    def weight(node: Node) -> bytes:
        return blake2b(node.life.bytes + bucket.to_bytes(2), digest_size=8).digest()

    owner = max((node for node in nodes if node.starts_runs), key=weight, default=None)
    return None if owner is None else owner.id
