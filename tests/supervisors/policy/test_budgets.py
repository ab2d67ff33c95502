"""Spending caps: which budget is reached, when budgets are renewed, how amounts are written."""

from datetime import datetime
from decimal import Decimal

import pytest

from storage.agent_facts import Budget
from supervisors.policy.budgets import dollars, reached_budget, renewed_at
from tests.storage.factories import HOUR, NOW
from tests.supervisors.agent_facts import seconds

OWN = Budget(False, Decimal(5), Decimal(5))
SHARED = Budget(True, Decimal(9), Decimal(9))


def test_reached_budget_with_the_lowest_cap_is_returned() -> None:
    assert reached_budget((SHARED, OWN)) == OWN


def test_no_budget_is_reached_while_money_is_left() -> None:
    assert reached_budget(()) is None
    assert reached_budget((Budget(False, Decimal(5), Decimal("4.999999")),)) is None


@pytest.mark.parametrize("now", [NOW, NOW + 15 * HOUR, NOW + 15 * HOUR - seconds(0.000001)])
def test_budgets_are_renewed_at_the_next_utc_midnight(now: datetime) -> None:
    until = renewed_at(now)

    assert now < until <= now + 24 * HOUR
    assert (until.hour, until.minute, until.second, until.microsecond) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("amount", "expected"), [("5", "5.00"), ("5.1", "5.10"), ("0.000001", "0.000001"), ("1E+3", "1000.00")]
)
def test_dollars_writes_an_amount_in_full(amount: str, expected: str) -> None:
    assert dollars(Decimal(amount)) == expected
