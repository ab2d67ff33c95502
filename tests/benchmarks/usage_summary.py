"""The summary of an agent's usage over a million model calls: one request alone, and 20 at once."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from statistics import median
from uuid import UUID

import asyncpg

from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result, Unit

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


async def measure(bench: Bench) -> Result:
    """Measure the summary of the last 30 days, after one that is not counted."""
    rounds = 3 * bench.pace.rounds
    async with bench.service() as service:
        agent = await _fill(service)
        alone = [await _together_ms(service, agent, 1) for _ in range(1 + rounds)][1:]
        together = [await _together_ms(service, agent, TOGETHER) for _ in range(1 + rounds)][1:]
    figures = [
        Figure("one alone", median(alone), Unit.MS, at_most=ALONE_MS_MOST),
        Figure(f"{TOGETHER} at once, the last", median(together), Unit.MS, at_most=TOGETHER_MS_MOST),
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


async def _together_ms(service: Service, agent: str, count: int) -> float:
    """Return the milliseconds until the last of so many requests at once is answered."""
    began = time.perf_counter()
    path = f"/api/cloud/agents/{agent}/usage/"
    await asyncio.gather(*(service.client.get(path) for _ in range(count)))
    return 1000 * (time.perf_counter() - began)
