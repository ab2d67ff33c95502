"""The stuck agent watch: it reports agents that sleep on although a notification is active (invariant I2)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from supervisors.clock import Clock

STUCK_AFTER_SECONDS = 60.0
MAX_AGENTS = 100


class SleepingAgents(Protocol):
    """The store of agent states; see `storage.agents.state.AgentStates`."""

    async def list_stuck(self, now: datetime, limit: int) -> Sequence[UUID]: ...


class StuckAgentWatch:
    """Remembers since when each agent has been stuck at every check; for a moment this is normal."""

    def __init__(self, agents: SleepingAgents, clock: Clock) -> None:
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
