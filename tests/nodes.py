"""How many nodes serve the tests of the API, and a stand-in for the other nodes where there are none."""

import os
from collections.abc import Collection
from uuid import UUID

from supervisors.engine.messages import Signal

NODES = int(os.environ.get("HOSTSVC_TEST_NODES", "1"))


class LoneNode:
    """The only node there is, always confirmed. Others with lower numbers are dead."""

    is_confirmed = True
    count = 1
    starts_runs = True

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.living_ids: Collection[int] = (node_id,)
        self.staying_ids = self.living_ids

    def is_living(self, node_id: int) -> bool:
        return node_id == self.node_id

    def is_leaving(self, _: int) -> bool:
        return False

    def responsible_for(self, _: UUID) -> int:
        return self.node_id

    async def wait_until_confirmed(self) -> None:
        """Return at once."""


def ring_nobody(node_id: int, signal: Signal, agent_id: UUID) -> None:
    """Stand for rings, where no other node lives."""
    raise AssertionError(f"{signal} for {agent_id} was rung at node {node_id}")
