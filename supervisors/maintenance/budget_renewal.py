"""The budget renewal: agents that wait for the next day's budget learn of a raised cap."""

from functools import partial

from supervisors.clock import Clock
from supervisors.engine.broadcast import Teller, tell_pages
from supervisors.policy.budgets import renewed_at
from supervisors.ports import StateStore


class BudgetRenewal:
    """Signals the agents that wait for midnight although their budgets are not spent."""

    def __init__(self, store: StateStore, registry: Teller, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def run_once(self) -> None:
        now = self._clock.now()
        await tell_pages(partial(self._store.list_within_budget, now, renewed_at(now)), self._registry)
