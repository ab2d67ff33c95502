"""The budget guard: it ends a run before a model call that a spending cap does not cover."""

from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun, RunBudgetReached, RunModelUnpriced
from supervisors.llm.catalog import is_priced
from supervisors.llm.pricing import Prices
from supervisors.policy.budgets import dollars, name_of, reached_budget
from supervisors.ports import SpendingStore


class BudgetGuard:
    """Checks the budget before each model call. Concurrent calls may exceed a cap together."""

    def __init__(self, spending: SpendingStore, prices: Prices, clock: Clock) -> None:
        self._spending = spending
        self._prices = prices
        self._clock = clock

    async def check(self, run: ActiveRun, qualified_model: str) -> None:
        """Raise RunBudgetReached if the day's budget is spent, or does not allow the model.

        A run without a cap costs no query.
        """
        if not run.is_capped:
            return
        now = self._clock.now()
        budgets = await self._spending.list_budgets(run.agent_id, now)
        budget = reached_budget(budgets)
        if budget is not None:
            spent, cap = dollars(budget.spent_usd), dollars(budget.cap_usd)
            raise RunBudgetReached(f"reached {name_of(budget)}: {spent} of {cap} USD a day")
        refusing = next((budget for budget in budgets if not budget.allows_unpriced), None)
        if refusing is not None and not await is_priced(self._prices, qualified_model, now):
            raise RunModelUnpriced(
                f"{name_of(refusing)} refuses the model {qualified_model}, because its price is not known"
            )
