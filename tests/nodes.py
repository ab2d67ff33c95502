"""How many nodes serve the tests of the API, and a stand-in for the other nodes where there are none."""

import os
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from storage.postgres.node import Node
from supervisors.engine.messages import Signal

NODES = int(os.environ.get("HOSTSVC_TEST_NODES", "1"))


def living_node(node_id: int, **facts: Any) -> Node:
    """Return a node that has told these facts."""
    roles = ("http", "runs", "chores")
    life, joined_at = UUID(int=node_id), datetime(2026, 11, 20, tzinfo=UTC)
    return Node(node_id, life, f"web/{node_id}", "0.2.0", 1, roles, "alive", 1, facts, joined_at)


class LoneNode:
    """The only node there is, always confirmed. Others with lower numbers are dead."""

    is_confirmed = True
    starts_runs = True

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.life = UUID(int=node_id)
        self.nodes: dict[int, Node] = {node_id: living_node(node_id)}
        self.living_ids: Collection[int] = (node_id,)
        self.staying_ids = self.living_ids

    def is_living(self, node_id: int) -> bool:
        return node_id in self.living_ids

    def is_leaving(self, _: int) -> bool:
        return False

    def responsible_for(self, _: UUID) -> int:
        return self.node_id

    def seconds_since_beat(self, _: int) -> float:
        return 0.0

    async def wait_until_confirmed(self) -> None:
        """Return at once."""


def ring_nobody(node_id: int, signal: Signal, agent_id: UUID) -> None:
    """Stand for rings, where no other node lives."""
    raise AssertionError(f"{signal} for {agent_id} was rung at node {node_id}")
