"""What model calls used: stored once each, added up by model."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from storage.agents.agents import Agents, RetainedAgent
from storage.history.spending import Spending
from storage.history.usage import ModelUsage, Usage, UsageRecord
from storage.identity.organizations import Organizations
from storage.ids import new_id
from storage.model import Budget
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, SECOND, stored_agent, stored_organization, usage_record

AGENT = UUID(int=1)
DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
CENT = Decimal("0.01")


@pytest.fixture
def usage(pool: Pool) -> Usage:
    return Usage(pool)


def record(model: str = "openai/gpt-4o", **fields: object) -> UsageRecord:
    plain = UsageRecord(
        id=new_id(),
        organization_id=UUID(int=2),
        agent_id=AGENT,
        trace_id=None,
        model=model,
        input_tokens=100,
        output_tokens=10,
        cached_tokens=40,
        cost_usd=CENT,
        priced=True,
        occurred_at=NOW,
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


async def test_usage_is_added_up_exactly_by_model(usage: Usage) -> None:
    dime = Decimal("0.1")
    records = [record(cost_usd=dime) for _ in range(3)] + [record("builtin/inbox", cost_usd=Decimal(0))]
    await asyncio.gather(*map(usage.insert, records))

    assert await usage.by_model(AGENT, NOW, NOW + SECOND) == [
        ModelUsage("builtin/inbox", 100, 10, 40, Decimal(0), 1),
        ModelUsage("openai/gpt-4o", 300, 30, 120, Decimal("0.3"), 3),
    ]


async def test_the_start_of_a_period_is_in_it_and_its_end_is_not(usage: Usage) -> None:
    for moment in (NOW - SECOND, NOW, NOW + HOUR):
        await usage.insert(record(occurred_at=moment))
    await usage.insert(record(agent_id=UUID(int=9)))

    (found,) = await usage.by_model(AGENT, NOW, NOW + HOUR)

    assert found.calls == 1
    assert await usage.by_model(AGENT, NOW + SECOND, NOW + HOUR) == []


async def test_a_record_that_comes_again_counts_once(usage: Usage) -> None:
    once = record()

    await asyncio.gather(usage.insert(once), usage.insert(once))
    await usage.insert(once)

    (found,) = await usage.by_model(AGENT, NOW, NOW + HOUR)
    assert found.calls == 1


async def test_what_a_day_cost_is_summed_up_once_for_each_agent_and_its_organization(pool: Pool) -> None:
    usage, spending = Usage(pool), Spending(pool)
    owner = await stored_organization(pool)
    await Organizations(pool).update(owner.id, {"max_cost_usd_per_day": Decimal(9)})
    scout, other = [await stored_agent(pool, owner.id, max_cost_usd_per_day=Decimal(5)) for _ in range(2)]
    again = usage_record(scout, cost_usd=Decimal("1.5"))
    midnight = NOW.replace(hour=0)

    await asyncio.gather(
        usage.insert(again),
        usage.insert(again),
        usage.insert(usage_record(scout, cost_usd=Decimal("0.000001"), occurred_at=midnight)),
        usage.insert(usage_record(scout, occurred_at=midnight - MICROSECOND)),
        usage.insert(usage_record(scout, occurred_at=midnight + DAY)),
        usage.insert(usage_record(other, cost_usd=Decimal(2))),
    )
    await usage.insert(again)
    of_scout, of_other = await asyncio.gather(
        spending.budgets(scout.id, NOW), spending.budgets(other.id, NOW + HOUR)
    )

    whole = Budget(True, Decimal(9), Decimal("3.500001"))
    assert of_scout == (Budget(False, Decimal(5), Decimal("1.500001")), whole)
    assert of_other == (Budget(False, Decimal(5), Decimal(2)), whole)
    assert await spending.budgets(scout.id, NOW + 2 * DAY) == (
        Budget(False, Decimal(5), Decimal(0)),
        Budget(True, Decimal(9), Decimal(0)),
    )


async def test_what_costs_nothing_leaves_no_sum(pool: Pool, usage: Usage) -> None:
    await usage.insert(record(cost_usd=Decimal(0)))

    assert await pool.fetchval("SELECT count(*) FROM spending") == 0


async def test_an_agent_without_a_cap_has_no_budget(pool: Pool) -> None:
    scout = await stored_agent(pool)
    await Usage(pool).insert(usage_record(scout))

    assert await Spending(pool).budgets(scout.id, NOW) == ()


async def test_a_deleted_agent_is_remembered_by_name(pool: Pool) -> None:
    scout = await stored_agent(pool, timezone="Europe/Berlin")
    await Agents(pool).delete(scout.id, NOW)

    remembered = await Agents(pool).get_retained(scout.id)

    assert remembered == RetainedAgent(scout.organization_id, "Scout", "Europe/Berlin")
    assert await Agents(pool).get_retained(new_id()) is None
