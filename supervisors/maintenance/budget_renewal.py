"""The budget renewal: resting agents learn that their budget was raised, or that others have spent it."""

from functools import partial

from supervisors.clock import Clock
from supervisors.engine.broadcast import Teller, tell_pages
from supervisors.policy.budgets import renewed_at
from supervisors.ports import StateStore


class BudgetRenewal:
    """Signals resting agents that are over their budgets, or within them, other than the event log says."""

    def __init__(self, store: StateStore, registry: Teller, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def run_once(self) -> None:
        now = self._clock.now()
        await tell_pages(partial(self._store.list_within_budget, now, renewed_at(now)), self._registry)
        await tell_pages(partial(self._store.list_newly_over_budget, now), self._registry)
