"""Wake contexts: reads and selects what agents are told, for the built-in harness and for the API."""

from dataclasses import dataclass
from uuid import UUID

from supervisors.clock import Clock
from supervisors.ports import WakeStore
from supervisors.wake.context import WakeContext, select


@dataclass(frozen=True, slots=True)
class WakeContexts:
    """Builds wake contexts. `context_tokens` is for templates that have no number of their own."""

    store: WakeStore
    clock: Clock
    context_tokens: int

    async def get(self, agent_id: UUID) -> WakeContext | None:
        """Return what the agent would be told now; None if there is no such agent."""
        now = self.clock.now()
        facts = await self.store.get(agent_id, now, self.context_tokens)
        return None if facts is None else select(facts, now, self.context_tokens)
