"""What caps on spending mean: which is reached, when there is something to spend again, how sums are told."""

from collections.abc import Collection
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

from storage.model import Budget

DAY = timedelta(days=1)


def reached(budgets: Collection[Budget]) -> Budget | None:
    """The one of which nothing is left; of two the tighter. None while there is something to spend."""
    spent = (budget for budget in budgets if budget.is_reached)
    return min(spent, key=lambda budget: budget.cap_usd, default=None)


def renewed_at(now: datetime) -> datetime:
    """When the next day's budgets begin: at UTC midnight."""
    return datetime.combine(now.astimezone(UTC).date() + DAY, time(), UTC)


def dollars(amount: Decimal) -> str:
    """In full, with two decimals at least: 5.00, 0.000001."""
    whole, _, decimals = f"{amount:f}".partition(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"
