"""The summary of an agent's usage over a million model calls: one request alone, and 20 at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from uuid import UUID

import asyncpg

from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result, Unit, median_ratio
from tests.benchmarks.rounds import orders

CALLS = 1_000_000
TOGETHER = 20
ALONE_MS_MOST = 20.0
TOGETHER_MS_MOST = 100.0
DAYS = 29  # within the 30 days of the summary

FILL = """
INSERT INTO usage_record (
    id, organization_id, agent_id, model, input_tokens, output_tokens, cached_tokens, cost_usd, priced,
    occurred_at)
SELECT gen_random_uuid(), $1, $2, 'openai/gpt-' || n % 3, 1000 + n % 1000, n % 100, n % 500,
       n % 1000 * 0.000001, n % 100 > 0,
       $3::timestamptz + n * ($4::timestamptz - $3::timestamptz) / $5::integer
FROM generate_series(0, $5::integer - 1) AS n
"""

Timed = Callable[[Service, str], Awaitable[float]]


async def measure(bench: Bench) -> Result:
    """Measure the summary of the last 30 days, of each service in turn."""
    async with bench.services() as services:
        agents = {one.name: await _fill(one) for one in services}
        rounds = 3 * bench.pace.rounds
        alone = await _in_turn(services, agents, _alone_ms, rounds)
        together = await _in_turn(services, agents, _together_ms, rounds)
    main, *others = (one.name for one in services)
    figures = [
        Figure("one alone", median(alone[main]), Unit.MS, at_most=ALONE_MS_MOST),
        Figure(f"{TOGETHER} at once, the last", median(together[main]), Unit.MS, at_most=TOGETHER_MS_MOST),
    ]
    for other in others:
        figures += [
            Figure(f"one alone, {main} / {other}", median_ratio(alone[main], alone[other]), Unit.RATIO),
            Figure(f"at once, {main} / {other}", median_ratio(together[main], together[other]), Unit.RATIO),
        ]
    return Result("usage", f"Usage summary of 30 days with {CALLS:,} model calls", figures)


async def _fill(service: Service) -> str:
    agent, now = await service.client.create_agent(), datetime.now(UTC)
    database = await asyncpg.connect(service.database_url)
    organization, first = UUID(service.organization), now - timedelta(days=DAYS)
    await database.execute(FILL, organization, UUID(agent), first, now, CALLS, timeout=300)
    await database.execute("VACUUM ANALYZE usage_record", timeout=300)
    await database.close()
    return agent


async def _in_turn(
    services: Sequence[Service], agents: Mapping[str, str], timed: Timed, rounds: int
) -> dict[str, list[float]]:
    """Return the milliseconds of each round of each service, after one that is not counted."""
    found: dict[str, list[float]] = {one.name: [] for one in services}
    for number, some in enumerate(orders(services, rounds + 1)):
        for one in some:
            took = await timed(one, agents[one.name])
            if number > 0:
                found[one.name].append(took)
    return found


async def _alone_ms(service: Service, agent: str) -> float:
    began = time.perf_counter()
    await service.client.get(f"/api/cloud/agents/{agent}/usage/")
    return 1000 * (time.perf_counter() - began)


async def _together_ms(service: Service, agent: str) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(_alone_ms(service, agent) for _ in range(TOGETHER)))
    return 1000 * (time.perf_counter() - began)
