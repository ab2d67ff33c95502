"""The agent counter: it counts the agents, so that a request for the status never scans a table."""

from supervisors.clock import Clock
from supervisors.engine.inspection import Statistics
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from supervisors.ports import StateStore


class AgentCounter:
    """Counts the agents for the statistics."""

    def __init__(self, store: StateStore, statistics: Statistics, clock: Clock) -> None:
        self._store = store
        self._statistics = statistics
        self._clock = clock

    async def run_once(self) -> None:
        counts = await self._store.count(self._clock.now(), quarantine_failures=QUARANTINE_AFTER_FAILURES)
        self._statistics.counts = counts
