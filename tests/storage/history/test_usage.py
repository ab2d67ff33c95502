"""Usage: each record is stored once and summed up by model."""

import asyncio
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest

from storage.history.usage import MAX_MODELS, ModelUsage, Usage, UsageRecord, UsageSums
from storage.ids import new_id
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, SECOND

AGENT = UUID(int=1)
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


async def test_usage_is_summed_exactly_by_model(usage: Usage) -> None:
    dime = Decimal("0.1")
    records = [record(cost_usd=dime) for _ in range(3)] + [record("builtin/inbox", cost_usd=Decimal(0))]
    await asyncio.gather(*map(usage.insert, records))

    assert await usage.sum_by_model(AGENT, NOW, NOW + SECOND) == UsageSums(
        total=ModelUsage("", 400, 40, 160, Decimal("0.3"), 4, priced=True),
        models=(
            ModelUsage("openai/gpt-4o", 300, 30, 120, Decimal("0.3"), 3, priced=True),
            ModelUsage("builtin/inbox", 100, 10, 40, Decimal(0), 1, priced=True),
        ),
        model_count=2,
    )


async def test_only_the_most_expensive_models_are_listed(usage: Usage) -> None:
    count = MAX_MODELS + 3
    await asyncio.gather(*(usage.insert(record(f"m{n}", cost_usd=n * CENT)) for n in range(count)))

    sums = await usage.sum_by_model(AGENT, NOW, NOW + SECOND)

    assert [model.model for model in sums.models] == [f"m{n}" for n in range(count - 1, 2, -1)]
    assert (sums.model_count, sums.total.calls) == (count, count)
    assert sums.total.cost_usd == CENT * count * (count - 1) / 2


async def test_period_includes_its_start_but_not_its_end(usage: Usage) -> None:
    for moment in (NOW - SECOND, NOW, NOW + HOUR):
        await usage.insert(record(occurred_at=moment))
    await usage.insert(record(agent_id=UUID(int=9)))

    assert (await usage.sum_by_model(AGENT, NOW, NOW + HOUR)).total.calls == 1
    nothing = UsageSums(ModelUsage("", 0, 0, 0, Decimal(0), 0, priced=True), (), 0)
    assert await usage.sum_by_model(AGENT, NOW + SECOND, NOW + HOUR) == nothing


async def test_record_inserted_again_counts_once(usage: Usage) -> None:
    once = record()

    await asyncio.gather(usage.insert(once), usage.insert(once))
    await usage.insert(once)

    assert (await usage.sum_by_model(AGENT, NOW, NOW + HOUR)).total.calls == 1


async def test_records_of_one_insert_are_stored_together(usage: Usage) -> None:
    known = record()
    await usage.insert(known)

    await usage.insert_all([known, record(), record("builtin/inbox", cost_usd=Decimal(0))])

    assert (await usage.sum_by_model(AGENT, NOW, NOW + HOUR)).total.calls == 3


async def test_record_without_cost_leaves_no_sum(pool: Pool, usage: Usage) -> None:
    await usage.insert(record(cost_usd=Decimal(0)))

    assert await pool.fetchval("SELECT count(*) FROM spending") == 0
