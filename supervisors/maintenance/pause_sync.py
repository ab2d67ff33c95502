"""The pause sync: a pause of an organization, and its end, reach all of its agents, however it was set.

A paused agent has no `next_due_at`, so that no scan returns to it during the pause. It has to be signalled
when the pause ends. If a process dies before it has signalled all agents, the next process finds those that
have something ahead of them but no `next_due_at`.
"""

from functools import partial
from uuid import UUID

from supervisors.clock import Clock
from supervisors.engine.broadcast import Teller, tell_agents_of, tell_pages
from supervisors.engine.pause_log import PauseLog
from supervisors.ports import OrganizationStore, StateStore


class PauseSync:
    """Compares the paused organizations with those it saw last, and signals the agents of changed ones."""

    def __init__(
        self,
        store: StateStore,
        organizations: OrganizationStore,
        registry: Teller,
        clock: Clock,
        pause_log: PauseLog,
    ) -> None:
        self._store = store
        self._organizations = organizations
        self._registry = registry
        self._clock = clock
        self._log = pause_log
        self._seen: frozenset[UUID] | None = None  # None after a start

    async def run_once(self) -> None:
        """Signal the agents of each organization whose pause began or ended since the last call."""
        told = self._log.paused
        paused = frozenset(await self._organizations.list_paused())
        if self._seen is None:
            self._log.begin(paused)
            # A pause from before the start needs no signal: its runs have died, and no agent starts in it.
            await tell_pages(partial(self._store.list_without_due_time, self._clock.now()), self._registry)
        else:
            self._log.report_rest(paused, told)
            for organization_id in paused ^ self._seen:
                await tell_agents_of(organization_id, self._store, self._registry)
        self._seen = paused  # only now, so that a failed signal is sent again by the next call
