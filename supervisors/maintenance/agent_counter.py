"""The agent counter: it counts agents for the status endpoint, which therefore never scans a table."""

from supervisors.clock import Clock
from supervisors.engine.registry import Registry
from supervisors.ports import StateStore


class AgentCounter:
    """Counts the agents for the registry."""

    def __init__(self, store: StateStore, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def run_once(self) -> None:
        """Count the agents and pass the counts to the registry."""
        self._registry.set_counts(await self._store.count(self._clock.now()))
