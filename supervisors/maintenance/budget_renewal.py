"""Sees to it that a higher cap on spending reaches the agents that wait for a budget, whoever wrote it."""

from functools import partial

from supervisors.clock import Clock
from supervisors.engine.broadcast import Teller, tell_pages
from supervisors.policy.budgets import renewed_at
from supervisors.ports import StateStore


class BudgetRenewal:
    """Finds those whose next moment is midnight though there is something to spend."""

    def __init__(self, store: StateStore, registry: Teller, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def run_once(self) -> None:
        """Tell them once."""
        now = self._clock.now()
        await tell_pages(partial(self._store.list_within_budget, now, renewed_at(now)), self._registry)
