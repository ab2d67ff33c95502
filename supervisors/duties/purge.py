"""Removes what deleted agents leave behind, in small batches, so that nobody waits for it."""

from typing import Protocol

BATCH = 1000


class DeletedAgents(Protocol):
    """Where the rows are; `storage.agents.Agents` says more."""

    async def purge_deleted(self, most: int) -> int: ...


class Purge:
    """Removes the queues, runs and channels of deleted agents."""

    def __init__(self, agents: DeletedAgents) -> None:
        self._agents = agents

    async def run_once(self) -> int:
        """Remove all there is, a batch at a time; how many rows went."""
        total = 0
        while (gone := await self._agents.purge_deleted(BATCH)) > 0:
            total += gone
        return total
