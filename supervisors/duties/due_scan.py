"""Finds every agent that is due or soon will be, whoever or whatever forgot to say so. It only tells."""

from uuid import UUID

from supervisors.alarm_clock import HORIZON
from supervisors.clock import Clock
from supervisors.messages import Look
from supervisors.ports import StateStore
from supervisors.registry import Registry

PAGE = 1000


class DueScan:
    """Repairs what a lost signal missed, and winds the alarm clock for the next minutes."""

    def __init__(self, store: StateStore, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def run_once(self) -> None:
        """One pass over what is due, what soon will be, and what is active on a sleeping agent."""
        await self._scan_moments()
        await self._scan_attention()

    async def recover(self) -> None:
        """After a start: end the runs that died, put the queued starts back in order, then scan."""
        self._registry.tell_all(await self._store.list_running(), Look.RELOAD)
        self._registry.tell_all(await self._store.list_queued(), Look.RELOAD)
        await self.run_once()

    async def _scan_moments(self) -> None:
        now = self._clock.now()
        last = None
        while True:
            found = await self._store.list_due(now + HORIZON, last, PAGE)
            for agent_id, at in found:
                if at <= now:
                    self._registry.tell(agent_id, Look.DUE)
                else:
                    self._registry.wind(agent_id, at)
            if len(found) < PAGE:
                return
            agent_id, at = found[-1]
            last = (at, agent_id)

    async def _scan_attention(self) -> None:
        now = self._clock.now()
        last: UUID | None = None
        while True:
            found = await self._store.list_attention(now, last, PAGE)
            self._registry.tell_all(found, Look.NOTIFIED)
            if len(found) < PAGE:
                return
            last = found[-1]
