"""The agent counter: it counts the agents, so that a request for the status never scans a table."""

import asyncio

from supervisors.clock import Clock
from supervisors.engine.inspection import Statistics
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from supervisors.ports import StateStore

MAX_QUARANTINED = 20  # that are read


class AgentCounter:
    """Counts the agents for the statistics, and reads some of those in quarantine."""

    def __init__(self, store: StateStore, statistics: Statistics, clock: Clock) -> None:
        self._store = store
        self._statistics = statistics
        self._clock = clock

    async def run_once(self) -> None:
        now = self._clock.now()
        counts = await self._store.count(now, quarantine_failures=QUARANTINE_AFTER_FAILURES)
        ids = sorted(counts.quarantined)[:MAX_QUARANTINED]
        quarantined = await asyncio.gather(*(self._store.get_facts(agent_id, now) for agent_id in ids))
        self._statistics.counts = counts
        self._statistics.quarantined = [facts for facts in quarantined if facts is not None]
