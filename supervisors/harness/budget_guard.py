"""The budget guard: it ends a run before a model call that the budget no longer covers."""

from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun, RunBudgetReached
from supervisors.policy.budgets import dollars, reached_budget
from supervisors.ports import SpendingStore


class BudgetGuard:
    """Checks the budget before each model call. Concurrent calls may exceed a cap together."""

    def __init__(self, spending: SpendingStore, clock: Clock) -> None:
        self._spending = spending
        self._clock = clock

    async def check(self, run: ActiveRun) -> None:
        """Raise RunBudgetReached if the day's budget is spent. A run without a cap costs no query."""
        if not run.is_capped:
            return
        budget = reached_budget(await self._spending.list_budgets(run.agent_id, self._clock.now()))
        if budget is not None:
            name = "its organization's budget" if budget.of_organization else "its budget"
            spent, cap = dollars(budget.spent_usd), dollars(budget.cap_usd)
            raise RunBudgetReached(f"reached {name}: {spent} of {cap} USD a day")
