"""Watches for what must never be: an agent that sleeps on although it has something to do."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from supervisors.clock import Clock

STUCK_AFTER_SECONDS = 60.0
MOST = 100


class SleepingAgents(Protocol):
    """Where they are; `storage.agents.state.AgentStates` says more."""

    async def list_stuck(self, now: datetime, limit: int) -> Sequence[UUID]: ...


class StuckAgentWatch:
    """Notes since when each of them has been seen so at every look; a moment of it is nothing unusual."""

    def __init__(self, agents: SleepingAgents, clock: Clock) -> None:
        self._agents = agents
        self._clock = clock
        self._seen_since: dict[UUID, float] = {}

    async def run_once(self) -> None:
        """Look once."""
        found, moment = await self._agents.list_stuck(self._clock.now(), MOST), self._clock.monotonic()
        self._seen_since = {agent_id: self._seen_since.get(agent_id, moment) for agent_id in found}

    def reasons(self) -> tuple[str, ...]:
        """A sentence for the operator, if any agent has been forgotten for too long."""
        latest = self._clock.monotonic() - STUCK_AFTER_SECONDS
        stuck_agents = [str(agent_id) for agent_id, since in self._seen_since.items() if since <= latest]
        if not stuck_agents:
            return ()
        reason = (
            f"For more than {STUCK_AFTER_SECONDS:g} s nothing has started or will start these agents, "
            f"although a high-priority notification is active: {', '.join(stuck_agents)}."
        )
        return (reason,)
