"""The budget guard: it ends a run whose budget is spent."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

import pytest

from hostsvc.llm.price_list import PriceList
from storage.agent_facts import Budget, RunStart
from storage.ids import new_id
from supervisors.engine.run import ActiveRun, RunBudgetReached, RunModelUnpriced
from supervisors.harness.budget_guard import BudgetGuard
from tests.storage.factories import NOW
from tests.supervisors.held_clock import HeldClock

PRICED, UNPRICED = "openai/gpt-4o", "lab/llama"


class FixedSpending:
    """Spending that returns the same budgets, and counts the queries."""

    def __init__(self, *budgets: Budget) -> None:
        self._budgets = budgets
        self.queries = 0

    async def list_budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]:
        self.queries += 1
        return self._budgets


def guard(spending: FixedSpending) -> BudgetGuard:
    return BudgetGuard(spending, PriceList(), HeldClock())


def capped_run() -> ActiveRun:
    start = RunStart(new_id(), "run_requested", None, None, NOW, "invoke_agent")
    run = ActiveRun(new_id(), start, active_at_start=0, clock=HeldClock())
    run.is_capped = True
    return run


@pytest.mark.parametrize(
    ("of_organization", "name"), [(False, "its budget"), (True, "its organization's budget")]
)
async def test_spent_budget_ends_the_run(of_organization: bool, name: str) -> None:
    spending = FixedSpending(Budget(of_organization, Decimal(5), Decimal("5.25")))

    with pytest.raises(RunBudgetReached, match=rf"^reached {name}: 5\.25 of 5\.00 USD a day$"):
        await guard(spending).check(capped_run(), PRICED)


async def test_budget_with_money_left_lets_the_run_go_on() -> None:
    spending = FixedSpending(Budget(False, Decimal(5), Decimal("4.99")))

    await guard(spending).check(capped_run(), PRICED)

    assert spending.queries == 1


async def test_run_without_a_cap_costs_no_query() -> None:
    spending, run = FixedSpending(Budget(False, Decimal(5), Decimal(5))), capped_run()
    run.is_capped = False

    await guard(spending).check(run, PRICED)

    assert spending.queries == 0


@pytest.mark.parametrize(
    ("of_organization", "name"), [(False, "its budget"), (True, "its organization's budget")]
)
async def test_cap_refuses_a_model_without_a_price(of_organization: bool, name: str) -> None:
    allowing = Budget(not of_organization, Decimal(5), Decimal(0), allows_unpriced=True)
    spending = FixedSpending(allowing, Budget(of_organization, Decimal(5), Decimal(0)))

    with pytest.raises(
        RunModelUnpriced, match=f"^{name} refuses the model lab/llama, because its price is not known$"
    ):
        await guard(spending).check(capped_run(), UNPRICED)
    await guard(spending).check(capped_run(), PRICED)
    await guard(spending).check(capped_run(), "builtin/inbox")


async def test_caps_that_allow_it_let_an_unpriced_model_go_on() -> None:
    spending = FixedSpending(Budget(False, Decimal(5), Decimal(0), allows_unpriced=True))

    await guard(spending).check(capped_run(), UNPRICED)


async def test_spent_budget_comes_before_an_unknown_price() -> None:
    with pytest.raises(RunBudgetReached, match=r"^reached its budget"):
        await guard(FixedSpending(Budget(False, Decimal(5), Decimal(5)))).check(capped_run(), UNPRICED)
