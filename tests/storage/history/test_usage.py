"""Usage: each record is stored once and summed up by model."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from uuid import UUID

import pytest

from storage.history.usage import (
    DAY,
    MAX_MODELS,
    MAX_NAMED_MODELS,
    ModelUsage,
    Parts,
    Usage,
    UsageByDay,
    UsageRecord,
    UsageScope,
    UsageSums,
    divide,
)
from storage.ids import new_id
from storage.postgres.pool import Pool
from storage.retention import Retention
from tests.storage.factories import HOUR, NOW, SECOND, stored_agent, stored_organization

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


async def test_only_the_most_expensive_models_are_listed(usage: Usage) -> None:
    count = MAX_MODELS + 3
    await asyncio.gather(*(usage.insert(record(f"m{n}", cost_usd=n * CENT)) for n in range(count)))

    sums = await usage.sum_by_model(AGENT, NOW, NOW + SECOND)

    assert [model.model for model in sums.models] == [f"m{n}" for n in range(count - 1, 2, -1)]
    assert (sums.model_count, sums.total.calls) == (count, count)
    assert sums.total.cost_usd == CENT * count * (count - 1) / 2


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


MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AGENTS = (UUID(int=11), UUID(int=12), UUID(int=13))
OWNERS = {AGENTS[0]: UUID(int=2), AGENTS[1]: UUID(int=2), AGENTS[2]: UUID(int=3)}

ALL_SUMS = """
SELECT organization_id, NULL::uuid AS agent_id, hour AT TIME ZONE 'UTC' AS start, model,
       calls, unpriced_calls, input_tokens, output_tokens, cached_tokens, cost_usd FROM usage_hour
UNION ALL
SELECT organization_id, agent_id, day, model, calls, unpriced_calls,
       input_tokens, output_tokens, cached_tokens, cost_usd FROM usage_day
"""
RECOUNTED = """
SELECT organization_id, NULL::uuid AS agent_id,
       date_trunc('hour', occurred_at AT TIME ZONE 'UTC') AS start, model,
       count(*), count(*) FILTER (WHERE NOT priced),
       sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(cost_usd)
FROM usage_record GROUP BY 1, 2, 3, 4
UNION ALL
SELECT organization_id, agent_id, date_trunc('day', occurred_at AT TIME ZONE 'UTC') AS start, model,
       count(*), count(*) FILTER (WHERE NOT priced),
       sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(cost_usd)
FROM usage_record GROUP BY 1, 2, 3, 4
"""


async def require_true_sums(pool: Pool) -> None:
    kept, recounted = await pool.fetch(ALL_SUMS), await pool.fetch(RECOUNTED)
    assert {tuple(row) for row in kept} == {tuple(row) for row in recounted}


@pytest.mark.parametrize(
    ("start", "end", "unit", "sums"),
    [
        (MIDNIGHT, MIDNIGHT + 3 * HOUR, HOUR, (MIDNIGHT, MIDNIGHT + 3 * HOUR)),
        (MIDNIGHT + SECOND, MIDNIGHT + 3 * HOUR - SECOND, HOUR, (MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR)),
        (MIDNIGHT + SECOND, MIDNIGHT + 2 * SECOND, HOUR, None),
        (MIDNIGHT - MINUTE, MIDNIGHT + MINUTE, HOUR, (MIDNIGHT, MIDNIGHT)),
        (MIDNIGHT - HOUR, MIDNIGHT + 25 * HOUR, DAY, (MIDNIGHT, MIDNIGHT + DAY)),
        (datetime.min.replace(tzinfo=UTC), MIDNIGHT, DAY, (datetime.min.replace(tzinfo=UTC), MIDNIGHT)),
        (datetime.max.replace(tzinfo=UTC) - SECOND, datetime.max.replace(tzinfo=UTC), HOUR, None),
    ],
    ids=["whole", "ends", "within_an_hour", "no_whole_hour", "days", "beginning_of_time", "end_of_time"],
)
def test_period_is_divided_at_whole_hours_or_days(
    start: datetime, end: datetime, unit: timedelta, sums: tuple[datetime, datetime] | None
) -> None:
    assert divide(start, end, unit) == Parts(start, *(sums or (end, end)), end)


@pytest.mark.parametrize("seed", range(3))
async def test_summaries_of_any_period_equal_a_recount(pool: Pool, seed: int) -> None:
    random = Random(seed)  # noqa: S311
    records = [_random_record(random) for _ in range(400)]
    usage, by_day = Usage(pool), UsageByDay(pool)
    await asyncio.gather(*map(usage.insert, records))

    for _ in range(30):
        start, end = sorted(_random_moment(random) for _ in range(2))
        agent_id = random.choice(AGENTS)
        counted = [each for each in records if start <= each.occurred_at < end]
        of_agent = [each for each in counted if each.agent_id == agent_id]
        assert await usage.sum_by_model(agent_id, start, end) == _recount(of_agent)
        for owner, whose in ((None, counted), (agent_id, of_agent)):
            scope = UsageScope(frozenset(OWNERS.values()), start, end, agent_id=owner)
            assert await _sums_by_day(by_day, scope) == _recount_days(whose)
            top = [
                (each.agent_id, each.cost_usd, each.calls) for each in await by_day.list_top_agents(scope, 9)
            ]
            assert top == _recount_agents(whose)
    await require_true_sums(pool)


async def test_deleted_records_leave_their_sums(pool: Pool) -> None:
    owner = await stored_organization(pool)
    usage, retention = Usage(pool), Retention(pool)
    old = [record(occurred_at=MIDNIGHT + n * MINUTE, organization_id=owner.id) for n in range(100)]
    await asyncio.gather(*map(usage.insert, old))

    while await retention.delete_usage(MIDNIGHT + 70 * MINUTE, 30):
        await require_true_sums(pool)
    assert (await usage.sum_by_model(AGENT, MIDNIGHT, MIDNIGHT + DAY)).total.calls == 30
    await usage.insert(record(occurred_at=MIDNIGHT, organization_id=owner.id))  # reported late
    assert (await usage.sum_by_model(AGENT, MIDNIGHT, MIDNIGHT + DAY)).total.calls == 31

    while await retention.delete_usage(MIDNIGHT + DAY, 30):
        pass
    assert await pool.fetch(ALL_SUMS) == []


async def test_usage_of_deleted_agent_leaves_its_sums(pool: Pool) -> None:
    owner = await stored_organization(pool)
    agent = await stored_agent(pool, owner.id)
    await Usage(pool).insert(record(agent_id=agent.id, organization_id=owner.id))
    await pool.execute("UPDATE agent SET deleted_at = $1, emptied_at = $1", MIDNIGHT)

    while await Retention(pool).delete_agents(MIDNIGHT + DAY, 10):
        await require_true_sums(pool)
    assert await pool.fetch(ALL_SUMS) == []


async def test_changes_by_other_programs_reach_the_sums(pool: Pool) -> None:
    await asyncio.gather(*(Usage(pool).insert(record(occurred_at=MIDNIGHT + n * HOUR)) for n in range(30)))
    for statement in (
        "UPDATE usage_record SET model = 'other', occurred_at = occurred_at + interval '5 h'",
        "UPDATE usage_record SET cost_usd = 1, priced = false WHERE input_tokens = 100",
        "DELETE FROM usage_record WHERE occurred_at < '2026-03-03T00:00Z'",
    ):
        await pool.execute(statement)
        await require_true_sums(pool)

    await pool.execute("TRUNCATE usage_record")
    assert await pool.fetch(ALL_SUMS) == []


async def test_inserts_and_deletions_of_the_same_hours_do_not_deadlock(pool: Pool) -> None:
    owner = await stored_organization(pool)
    writers = [Usage(pool) for _ in range(3)]  # each has batches of its own
    random = Random(1)  # noqa: S311

    async def insert(usage: Usage) -> None:
        for _ in range(20):
            some = [
                record(
                    random.choice("abc"),
                    organization_id=owner.id,
                    agent_id=random.choice(AGENTS),
                    occurred_at=MIDNIGHT + random.randrange(48) * HOUR,
                )
                for _ in range(20)
            ]
            await asyncio.gather(*map(usage.insert, some))

    async def delete() -> None:
        for _ in range(60):
            await Retention(pool).delete_usage(MIDNIGHT + 2 * DAY, 17)

    await asyncio.gather(*map(insert, writers), delete(), delete())
    await require_true_sums(pool)


def _random_moment(random: Random) -> datetime:
    """Return a moment of eight days, often at the limit of an hour or a day, or just before or after it."""
    unit = random.choice((timedelta(microseconds=1), MINUTE, HOUR, HOUR, DAY))
    count = 8 * DAY // unit
    return MIDNIGHT + random.randrange(count) * unit + timedelta(microseconds=random.choice((-1, 0, 0, 1)))


def _random_record(random: Random) -> UsageRecord:
    agent_id = random.choice(AGENTS)
    return replace(
        record(f"m{min(random.randrange(30), random.randrange(30))}"),
        organization_id=OWNERS[agent_id],
        agent_id=agent_id,
        input_tokens=random.randrange(2**31),
        cost_usd=random.randrange(10**9) * CENT**3,
        priced=random.random() < 0.9,
        occurred_at=_random_moment(random),
    )


def _sum(model: str, records: Sequence[UsageRecord]) -> ModelUsage:
    return ModelUsage(
        model,
        sum(each.input_tokens for each in records),
        sum(each.output_tokens for each in records),
        sum(each.cached_tokens for each in records),
        sum((each.cost_usd for each in records), Decimal(0)),
        len(records),
        all(each.priced for each in records),
    )


def _by_model(records: Sequence[UsageRecord]) -> list[ModelUsage]:
    """Sum up the records by model, the most expensive first."""
    models = {each.model for each in records}
    sums = [_sum(model, [each for each in records if each.model == model]) for model in models]
    return sorted(sums, key=lambda each: (-each.cost_usd, -each.calls, each.model))


def _recount(records: Sequence[UsageRecord]) -> UsageSums:
    models = _by_model(records)
    return UsageSums(_sum("", records), tuple(models), len(models))


async def _sums_by_day(by_day: UsageByDay, scope: UsageScope) -> object:
    usage = await by_day.sum_by_day(scope)
    days = {
        each.day: {
            None if place is None else usage.models[place]: sums for place, sums in each.by_model.items()
        }
        for each in usage.days
    }
    return usage.models, usage.model_count, days


def _recount_days(records: Sequence[UsageRecord]) -> object:
    models = [each.model for each in _by_model(records)]
    named = models[:MAX_NAMED_MODELS]
    days: dict[object, dict[str | None, list[UsageRecord]]] = {}
    for each in records:
        name = each.model if each.model in named else None
        days.setdefault(each.occurred_at.date(), {}).setdefault(name, []).append(each)
    sums = {
        day: {name: _sum(name or "", some) for name, some in of_day.items()} for day, of_day in days.items()
    }
    return tuple(named), len(models), sums


def _recount_agents(records: Iterable[UsageRecord]) -> object:
    by_agent: dict[UUID, list[UsageRecord]] = {}
    for each in records:
        by_agent.setdefault(each.agent_id, []).append(each)
    sums = [(agent_id, _sum("", some)) for agent_id, some in by_agent.items()]
    ordered = sorted(sums, key=lambda pair: (-pair[1].cost_usd, -pair[1].calls, pair[0]))
    return [(agent_id, each.cost_usd, each.calls) for agent_id, each in ordered]
