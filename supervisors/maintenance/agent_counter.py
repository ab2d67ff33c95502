"""Counts what the status endpoint shows, so that asking for it never scans a table."""

from supervisors.clock import Clock
from supervisors.engine.registry import Registry
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from supervisors.ports import StateStore


class AgentCounter:
    """Hands the registry fresh counts."""

    def __init__(self, store: StateStore, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def run_once(self) -> None:
        """Count once."""
        counts = await self._store.count(self._clock.now(), quarantine_failures=QUARANTINE_AFTER_FAILURES)
        self._registry.set_counts(counts)
