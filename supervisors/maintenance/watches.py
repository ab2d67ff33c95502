"""The watches: they count the agents, find those that sleep on although they should wake, and measure lag."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from storage.agents.state import AgentStates
from supervisors.clock import Clock
from supervisors.engine.inspection import Statistics
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from supervisors.ports import StateStore

MAX_QUARANTINED = 20  # that are read
STUCK_AFTER_SECONDS = 60.0
MAX_AGENTS = 100
SAMPLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class AgentCounter:
    """Counts the agents for the statistics, and reads some of those in quarantine."""

    store: StateStore
    statistics: Statistics
    clock: Clock

    async def run_once(self) -> None:
        now = self.clock.now()
        counts = await self.store.count(now, quarantine_failures=QUARANTINE_AFTER_FAILURES)
        ids = sorted(counts.quarantined)[:MAX_QUARANTINED]
        quarantined = await asyncio.gather(*(self.store.get_facts(agent_id, now) for agent_id in ids))
        self.statistics.counts = counts
        self.statistics.quarantined = [facts for facts in quarantined if facts is not None]


class StuckAgentWatch:
    """Remembers since when each agent has been stuck at every check; for a moment this is normal."""

    def __init__(self, agents: AgentStates, clock: Clock) -> None:
        self._agents = agents
        self._clock = clock
        self._seen_since: dict[UUID, float] = {}

    async def run_once(self) -> None:
        stuck_agents = await self._agents.list_stuck(self._clock.now(), MAX_AGENTS)
        moment = self._clock.monotonic()
        self._seen_since = {agent_id: self._seen_since.get(agent_id, moment) for agent_id in stuck_agents}

    def forgotten(self) -> Mapping[UUID, datetime]:
        """Return the agents that have been stuck for too long, and since when they have been seen so."""
        moment, now = self._clock.monotonic(), self._clock.now()
        return {
            agent_id: now - timedelta(seconds=moment - since)
            for agent_id, since in self._seen_since.items()
            if since <= moment - STUCK_AFTER_SECONDS
        }

    def reasons(self) -> tuple[str, ...]:
        """Return a sentence for the operator if any agent has been stuck for too long, else nothing."""
        stuck_agents = [str(agent_id) for agent_id in self.forgotten()]
        if not stuck_agents:
            return ()
        reason = (
            f"For more than {STUCK_AFTER_SECONDS:g} s nothing has started or will start these agents, "
            f"although a high-priority notification is active: {', '.join(stuck_agents)}."
        )
        return (reason,)


class LoopLagProbe:
    """Sleeps a second and measures how late it wakes."""

    def __init__(self, statistics: Statistics, clock: Clock) -> None:
        self._statistics = statistics
        self._clock = clock

    async def run_once(self) -> None:
        """Take one sample."""
        expected = self._clock.monotonic() + SAMPLE_SECONDS
        await self._clock.sleep(SAMPLE_SECONDS)
        delay = max(0.0, self._clock.monotonic() - expected)
        self._statistics.loop_lag_seconds.append(delay)
        self._statistics.loop_delays.add(delay)
