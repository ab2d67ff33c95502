"""Spending caps: which one is reached, when the next day's budgets begin, how an amount is written."""

from collections.abc import Collection
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

from storage.agent_facts import Budget
from storage.model import Organization, Template, Unpriced

DAY = timedelta(days=1)


def reached_budget(budgets: Collection[Budget]) -> Budget | None:
    """Return the budget that is spent, of several the one with the lowest cap; None if money is left."""
    spent = (budget for budget in budgets if budget.is_reached)
    return min(spent, key=lambda budget: budget.cap_usd, default=None)


def renewed_at(now: datetime) -> datetime:
    """Return the UTC midnight at which the next day's budgets begin."""
    return datetime.combine(now.astimezone(UTC).date() + DAY, time(), UTC)


def refusing_cap(
    agent_cap_usd: Decimal | None,
    agent_rule: Unpriced | None,
    template: Template | None,
    organization: Organization,
) -> str:
    """Return whose cap refuses models without a known price: agent, template or organization; blank: none's.

    `agent_cap_usd` and `agent_rule` are the agent's own; where they are None, those of its template count.
    """
    rule = agent_rule or (template.unpriced if template else Unpriced.REFUSE)
    inherited_usd = template.max_cost_usd_per_day if template else None
    if rule is Unpriced.REFUSE and agent_cap_usd is not None:
        return "agent"
    if rule is Unpriced.REFUSE and inherited_usd is not None:
        return "template"
    is_capped = organization.max_cost_usd_per_day is not None
    return "organization" if is_capped and organization.unpriced is Unpriced.REFUSE else ""


def name_of(budget: Budget) -> str:
    """Return whose budget it is, seen from the agent."""
    return "its organization's budget" if budget.of_organization else "its budget"


def dollars(amount: Decimal) -> str:
    """Write an amount in full, with at least two decimals: 5.00, 0.000001."""
    whole, _, decimals = f"{amount:f}".partition(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"
