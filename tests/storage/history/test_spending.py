"""Spending: the sums of a day, held against the caps of agent and organization."""

import asyncio
from datetime import timedelta
from decimal import Decimal

from storage.agent_facts import Budget
from storage.history.usage import Spending, Usage
from storage.identity.organizations import Organizations
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, stored_agent, stored_organization, usage_record

DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)


async def test_day_is_summed_once_for_agent_and_organization(pool: Pool) -> None:
    usage, spending = Usage(pool), Spending(pool)
    owner = await stored_organization(pool)
    await Organizations(pool).update(owner.id, {"max_cost_usd_per_day": Decimal(9)}, NOW)
    scout, other = [await stored_agent(pool, owner.id, max_cost_usd_per_day=Decimal(5)) for _ in range(2)]
    repeated = usage_record(scout, cost_usd=Decimal("1.5"))
    midnight = NOW.replace(hour=0)

    await asyncio.gather(
        usage.insert(repeated),
        usage.insert(repeated),
        usage.insert(usage_record(scout, cost_usd=Decimal("0.000001"), occurred_at=midnight)),
        usage.insert(usage_record(scout, occurred_at=midnight - MICROSECOND)),
        usage.insert(usage_record(scout, occurred_at=midnight + DAY)),
        usage.insert(usage_record(other, cost_usd=Decimal(2))),
    )
    await usage.insert(repeated)
    of_scout, of_other = await asyncio.gather(
        spending.list_budgets(scout.id, NOW), spending.list_budgets(other.id, NOW + HOUR)
    )

    of_organization = Budget(True, Decimal(9), Decimal("3.500001"))
    assert of_scout == (Budget(False, Decimal(5), Decimal("1.500001")), of_organization)
    assert of_other == (Budget(False, Decimal(5), Decimal(2)), of_organization)
    assert await spending.list_budgets(scout.id, NOW + 2 * DAY) == (
        Budget(False, Decimal(5), Decimal(0)),
        Budget(True, Decimal(9), Decimal(0)),
    )


async def test_capped_reports_count_for_what_the_cap_leaves(pool: Pool) -> None:
    usage, spending = Usage(pool), Spending(pool)
    owner = await stored_organization(pool)
    await Organizations(pool).update(owner.id, {"max_cost_usd_per_day": Decimal(99)}, NOW)
    scout, other = [await stored_agent(pool, owner.id, max_cost_usd_per_day=Decimal(5)) for _ in range(2)]
    cap = Decimal(5)

    await usage.insert(usage_record(scout, cost_usd=Decimal(1)))
    await asyncio.gather(
        usage.insert(usage_record(scout, cost_usd=Decimal(2))),
        *(usage.insert(usage_record(scout, cost_usd=Decimal(3)), cap_usd=cap) for _ in range(3)),
        usage.insert(usage_record(other, cost_usd=Decimal(4)), cap_usd=cap),
    )
    await usage.insert(usage_record(scout, cost_usd=Decimal(7)), cap_usd=cap)

    of_scout, of_organization = await spending.list_budgets(scout.id, NOW)
    assert of_scout.spent_usd == 1 + 2 + 9 + 7
    assert of_organization.spent_usd == 5 + 4
