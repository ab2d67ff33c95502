"""Sees to it that a pause of an organization, and its end, reach all of its agents, whoever wrote it.

A paused agent keeps no moment to look at (`next_due_at`), so that no scan comes back to it for as long as
the pause lasts. When the pause ends it has to be told, therefore; and where a process died before all were
told, the next one finds the agents that have something ahead of them but no moment.
"""

from functools import partial
from uuid import UUID

from supervisors.clock import Clock
from supervisors.engine.broadcast import Teller, tell_agents_of, tell_pages
from supervisors.ports import OrganizationStore, StateStore


class PauseSync:
    """Compares which organizations are paused with what it saw last, and tells the agents of the others."""

    def __init__(
        self, store: StateStore, organizations: OrganizationStore, registry: Teller, clock: Clock
    ) -> None:
        self._store = store
        self._organizations = organizations
        self._registry = registry
        self._clock = clock
        self._seen: frozenset[UUID] | None = None  # None after a start

    async def run_once(self) -> None:
        """Tell the agents of each organization whose pause began or ended since the last time."""
        paused = frozenset(await self._organizations.list_paused())
        if self._seen is None:
            # A pause that began unheard needs nothing: what ran then is dead, and whoever looks rests.
            await tell_pages(partial(self._store.list_unarmed, self._clock.now()), self._registry)
        else:
            for organization_id in paused ^ self._seen:
                await tell_agents_of(organization_id, self._store, self._registry)
        self._seen = paused  # only now: what could not be told is told the next time
