"""The nodes of a simulated service, and the rings between them."""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from uuid import UUID

from supervisors.engine.messages import Signal


class Cluster:
    """All nodes that live, as each of them sees them at once."""

    def __init__(self) -> None:
        self.nodes: dict[int, SimulatedNode] = {}
        self._count = 0

    def join(self) -> "SimulatedNode":
        """Return a new node, which lives from now on."""
        self._count += 1
        node = self.nodes[self._count] = SimulatedNode(self, self._count)
        self._tell_changed()
        return node

    def bury(self, node_id: int) -> None:
        """Declare a node dead."""
        del self.nodes[node_id]
        self._tell_changed()

    def _tell_changed(self) -> None:
        for node in self.nodes.values():
            node.changed.set()


class SimulatedNode:
    """One node, as its supervisors see it and the others: a `supervisors.ports.Nodes`."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.node_id = node_id
        self.changed = asyncio.Event()
        self.hear: Callable[[Signal, Iterable[UUID]], None] = lambda *_: None
        self._cluster = cluster
        self._confirmed = asyncio.Event()
        self._confirmed.set()

    @property
    def living_ids(self) -> tuple[int, ...]:
        return tuple(self._cluster.nodes)

    @property
    def staying_ids(self) -> tuple[int, ...]:
        return self.living_ids

    @property
    def starts_runs(self) -> bool:
        return True

    @property
    def is_confirmed(self) -> bool:
        return self._confirmed.is_set()

    def is_living(self, node_id: int) -> bool:
        return node_id in self._cluster.nodes

    def is_leaving(self, _: int) -> bool:
        return False

    def responsible_for(self, agent_id: UUID) -> int:
        """Return the node that has the highest draw for the agent."""
        draws = {node_id: Random(f"{agent_id} {node_id}").random() for node_id in self._cluster.nodes}  # noqa: S311
        return max(draws, key=draws.__getitem__, default=self.node_id)

    async def wait_until_confirmed(self) -> None:
        await self._confirmed.wait()

    def ring(self, node_id: int, signal: Signal, agent_id: UUID) -> None:
        """Ring for an agent at another node, which hears it in the next turn of the loop."""
        other = self._cluster.nodes.get(node_id)
        if other is not None:
            asyncio.get_running_loop().call_soon(other.hear, signal, (agent_id,))

    def lose_confirmation(self) -> None:
        self._confirmed.clear()

    def regain_confirmation(self) -> None:
        self._confirmed.set()
        self.changed.set()
