"""Spending caps: which one is reached, when the next day's budgets begin, how an amount is written."""

from collections.abc import Collection
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

from storage.agent_facts import Budget

DAY = timedelta(days=1)


def reached_budget(budgets: Collection[Budget]) -> Budget | None:
    """Return the budget that is spent, of several the one with the lowest cap; None if money is left."""
    spent = (budget for budget in budgets if budget.is_reached)
    return min(spent, key=lambda budget: budget.cap_usd, default=None)


def renewed_at(now: datetime) -> datetime:
    """Return the UTC midnight at which the next day's budgets begin."""
    return datetime.combine(now.astimezone(UTC).date() + DAY, time(), UTC)


def dollars(amount: Decimal) -> str:
    """Write an amount in full, with at least two decimals: 5.00, 0.000001."""
    whole, _, decimals = f"{amount:f}".partition(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"
