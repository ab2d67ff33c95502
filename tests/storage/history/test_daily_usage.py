"""Daily usage: exact sums by UTC day and model, and the agents that cost the most."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from storage.agents.templates import Templates
from storage.history.daily_usage import MAX_NAMED_MODELS, UsageByDay, UsageScope
from storage.history.usage import ModelUsage, Usage
from storage.model import Agent
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, SECOND, stored_agent, stored_organization, template
from tests.storage.history.test_usage import AGENT, CENT, record

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
ORGANIZATION = UUID(int=2)
PERIOD = UsageScope((ORGANIZATION,), MIDNIGHT - 24 * HOUR, MIDNIGHT + 24 * HOUR)


@pytest.fixture
def usage(pool: Pool) -> Usage:
    return Usage(pool)


@pytest.fixture
def by_day(pool: Pool) -> UsageByDay:
    return UsageByDay(pool)


async def test_calls_count_for_their_utc_day_and_model(usage: Usage, by_day: UsageByDay) -> None:
    for model, moment in (
        ("a", MIDNIGHT - SECOND),
        ("a", MIDNIGHT),
        ("b", MIDNIGHT + HOUR),
        ("b", MIDNIGHT + 2 * HOUR),
        ("b", PERIOD.end),
        ("b", PERIOD.start - SECOND),
    ):
        cost_usd = CENT if model == "a" else 2 * CENT
        await usage.insert(record(model, occurred_at=moment, cost_usd=cost_usd, priced=model == "a"))
    await usage.insert(record("c", occurred_at=MIDNIGHT, organization_id=UUID(int=3)))

    sums = await by_day.sum_by_day(PERIOD)

    assert (sums.models, sums.model_count) == (("b", "a"), 2)
    one = ModelUsage("a", 100, 10, 40, CENT, 1, priced=True)
    two = ModelUsage("b", 200, 20, 80, 4 * CENT, 2, priced=False)
    assert [(str(day.day), dict(day.by_model)) for day in sums.days] == [
        ("2026-03-01", {1: one}),
        ("2026-03-02", {0: two, 1: one}),
    ]


async def test_cheap_models_of_a_day_are_summed_together(usage: Usage, by_day: UsageByDay) -> None:
    for n in range(MAX_NAMED_MODELS + 3):
        await usage.insert(record(f"m{n}", cost_usd=n * CENT, occurred_at=MIDNIGHT))

    sums = await by_day.sum_by_day(PERIOD)

    assert sums.models == tuple(f"m{n}" for n in range(MAX_NAMED_MODELS + 2, 2, -1))
    assert sums.model_count == MAX_NAMED_MODELS + 3
    [day] = sums.days
    assert day.by_model[None] == ModelUsage("", 300, 30, 120, 3 * CENT, 3, priced=True)
    assert len(day.by_model) == MAX_NAMED_MODELS + 1


async def test_usage_is_summed_for_one_agent_or_template(pool: Pool, usage: Usage) -> None:
    scout = await _agent_with_template(pool)
    owner = scout.organization_id
    await usage.insert(record(agent_id=scout.id, organization_id=owner, occurred_at=MIDNIGHT))
    await usage.insert(record(organization_id=owner, occurred_at=MIDNIGHT))

    by_day, period = UsageByDay(pool), (PERIOD.start, PERIOD.end)
    calls = []
    for scope in (
        UsageScope((owner,), *period),
        UsageScope((owner,), *period, agent_id=scout.id),
        UsageScope((owner,), *period, template_id=scout.template_id),
        UsageScope((owner,), *period, agent_id=AGENT, template_id=scout.template_id),
        UsageScope((), *period),
    ):
        sums = await by_day.sum_by_day(scope)
        calls.append(sum(part.calls for day in sums.days for part in day.by_model.values()))
    assert calls == [2, 1, 1, 0, 0]


async def test_top_agents_are_the_most_expensive_ones(pool: Pool, usage: Usage, by_day: UsageByDay) -> None:
    scout = await _agent_with_template(pool)
    owner = scout.organization_id
    for agent_id, cost_usd in ((scout.id, 1), (AGENT, 2), (scout.id, 3), (UUID(int=7), 1)):
        call = record(agent_id=agent_id, organization_id=owner, occurred_at=MIDNIGHT)
        await usage.insert(replace(call, cost_usd=Decimal(cost_usd)))

    top = await by_day.list_top_agents(UsageScope((owner,), PERIOD.start, PERIOD.end), 2)

    assert [(agent.agent_id, agent.name, agent.cost_usd, agent.calls) for agent in top] == [
        (scout.id, scout.name, Decimal(4), 2),
        (AGENT, "", Decimal(2), 1),
    ]


async def _agent_with_template(pool: Pool) -> Agent:
    owner = await stored_organization(pool)
    desk = template(owner.id)
    await Templates(pool).insert(desk)
    return await stored_agent(pool, owner.id, template_id=desk.id)
