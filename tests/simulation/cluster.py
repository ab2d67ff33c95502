"""The nodes of a simulated service as their table has them, what each has read of it, and the rings between.

A node learns late that another has joined, leaves or is dead, each node at a moment of its own.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum
from random import Random
from uuid import UUID

from hostsvc_testing.memory.tables import QUANTUM_SECONDS
from hostsvc_testing.virtual.virtual_loop import VirtualLoop
from supervisors.engine.messages import Signal

READ_QUANTA = (0, 0, 1, 2)  # until a node has read that another has joined, leaves or is dead
LATEST_READ_SECONDS = max(READ_QUANTA) * QUANTUM_SECONDS
RING_QUANTA = (0, 0, 1, 2)

OnLost = Callable[[Signal, UUID], None]


class Membership(StrEnum):
    ALIVE = "alive"
    LEAVING = "leaving"


class Cluster:
    """The table of nodes: those that live, and their states. A share of the rings is lost."""

    def __init__(self, loop: VirtualLoop, random: Random, *, share_lost: float, has_delays: bool) -> None:
        self.loop = loop
        self.random = random
        self.rows: dict[int, Membership] = {}
        self.nodes: dict[int, SimulatedNode] = {}
        self.on_late: OnLost = lambda *_: None  # is called with a ring that comes late or never
        self._share_lost = share_lost
        self._has_delays = has_delays

    def join(self) -> "SimulatedNode":
        """Return a new node, which lives from now on."""
        node = SimulatedNode(self, len(self.nodes) + 1)
        self.rows[node.node_id] = Membership.ALIVE
        self.nodes[node.node_id] = node
        node.read()
        self._tell_changed()
        return node

    def leave(self, node_id: int) -> None:
        """Let a node say that it will end."""
        self.rows[node_id] = Membership.LEAVING
        self.nodes[node_id].read()
        self._tell_changed()

    def bury(self, node_id: int) -> None:
        """Declare a node dead."""
        del self.rows[node_id]
        self._tell_changed()

    def carry_ring(self, node_id: int, signal: Signal, agent_id: UUID) -> None:
        """Ring for an agent at a node: once, twice, late or never."""
        node, draw = self.nodes[node_id], self.random.random()
        if draw < self._share_lost:
            self.on_late(signal, agent_id)
            return
        quanta = self.random.choice(RING_QUANTA) if self._has_delays else 0
        if quanta:
            self.on_late(signal, agent_id)
        for _ in range(2 if draw > 0.9 else 1):
            if quanta:
                self.loop.call_later(quanta * QUANTUM_SECONDS, node.be_rung, signal, agent_id)
            else:
                self.loop.call_soon(node.be_rung, signal, agent_id)

    def _tell_changed(self) -> None:
        """Let each node read the rows, the others later than the one that has changed them."""
        for node_id in self.rows:
            quanta = self.random.choice(READ_QUANTA) if len(self.rows) > 1 else 0
            if quanta:
                self.loop.call_later(quanta * QUANTUM_SECONDS, self.nodes[node_id].read)
            else:
                self.nodes[node_id].read()


class SimulatedNode:
    """One node, as its supervisors see it and the others: a `supervisors.ports.Nodes`."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.node_id = node_id
        self.owner: object = None  # its process
        self.changed = asyncio.Event()
        self.hear: Callable[[Signal, Iterable[UUID]], None] = lambda *_: None
        self._cluster = cluster
        self._rows: dict[int, Membership] = {}
        self._newest = 0
        self._confirmed = asyncio.Event()
        self._confirmed.set()
        self._missed: list[Callable[[], None]] | None = None  # while it is frozen
        self._draws: dict[tuple[UUID, int], float] = {}

    @property
    def living_ids(self) -> tuple[int, ...]:
        return tuple(self._rows)

    @property
    def staying_ids(self) -> tuple[int, ...]:
        return tuple(node_id for node_id in self._rows if not self.is_leaving(node_id))

    @property
    def starts_runs(self) -> bool:
        return not self.is_leaving(self.node_id)

    @property
    def is_confirmed(self) -> bool:
        return self._confirmed.is_set()

    def is_living(self, node_id: int) -> bool:
        return node_id in self._rows or node_id > self._newest

    def is_leaving(self, node_id: int) -> bool:
        return self._rows.get(node_id) is Membership.LEAVING

    def responsible_for(self, agent_id: UUID) -> int | None:
        """Return the node that has the highest draw for the agent among those that stay."""
        return max(self.staying_ids, key=lambda node_id: self._draw(agent_id, node_id), default=None)

    async def wait_until_confirmed(self) -> None:
        await self._confirmed.wait()

    def ring(self, node_id: int, signal: Signal, agent_id: UUID) -> None:
        """Ring for an agent at another node."""
        self._cluster.carry_ring(node_id, signal, agent_id)

    def be_rung(self, signal: Signal, agent_id: UUID) -> None:
        self._act(lambda: self.hear(signal, (agent_id,)))

    def read(self) -> None:
        """Read who lives."""
        self._act(self._read)

    def lose_confirmation(self) -> None:
        self._confirmed.clear()

    def regain_confirmation(self) -> None:
        self._confirmed.set()
        self.changed.set()

    def freeze(self) -> None:
        self._missed = []

    def thaw(self) -> None:
        missed, self._missed = self._missed or [], None
        for act in missed:
            self._act(act)

    def _act(self, act: Callable[[], None]) -> None:
        """Do something of this node's process, once it is not frozen."""
        if self._missed is not None:
            self._missed.append(act)
            return
        with self._cluster.loop.acting(self.owner):
            act()

    def _read(self) -> None:
        before, self._rows = self._rows, dict(self._cluster.rows)
        self._newest = max(self._cluster.nodes)  # dead or not
        if self._rows != before:
            self.changed.set()

    def _draw(self, agent_id: UUID, node_id: int) -> float:
        key = agent_id, node_id
        if key not in self._draws:
            self._draws[key] = Random(f"{agent_id} {node_id}").random()  # noqa: S311 -- lots, not secrets
        return self._draws[key]
