"""Notifications at four fifths of the capacity for cycles: answers and starts have to be prompt."""

from collections.abc import Sequence
from statistics import median
from uuid import UUID

import asyncpg

from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.cycles import run_cycles
from tests.benchmarks.figures import Figure, Result, Unit, times
from tests.benchmarks.open_loop import Answer
from tests.benchmarks.posts import post_requests
from tests.benchmarks.reminders import STARTED, until_cleared
from tests.benchmarks.requests import send_at_rate

AGENTS = 1000
LOAD = 0.8
SECONDS, QUICK_SECONDS = 20.0, 8.0
POST_MS_MOST = 15.0
START_MS_MOST = 25.0
PATIENCE_SECONDS = 60.0


async def measure(bench: Bench) -> Result:
    """Measure the capacity, and then the delays at a share of it."""
    async with bench.service() as service:
        agents = await service.create_agents(AGENTS)
        capacity = await measure_capacity(service, agents, bench)
        requests, seconds = (
            post_requests(service, agents, "high"),
            QUICK_SECONDS if bench.is_quick else SECONDS,
        )
        answers = await send_at_rate(service.server, requests, LOAD * capacity, seconds)
        waits = await _start_delays_ms(service, answers)
    posts = [1000 * answer.took_seconds for answer in answers]
    refused = sum(answer.status != 201 for answer in answers)
    figures = [
        Figure("capacity for cycles", capacity, Unit.PER_SECOND),
        *times("POST to its answer", posts, p99_at_most=POST_MS_MOST),
        *times("201 to the start of the run", waits, p99_at_most=START_MS_MOST),
        Figure("refused", refused, Unit.COUNT, at_most=0),
    ]
    return Result("steady", f"High notifications at {LOAD:g} of the capacity for cycles", figures)


async def measure_capacity(service: Service, agents: Sequence[str], bench: Bench) -> float:
    """Return how many cycles a second these agents can do."""
    await run_cycles(service, agents, bench.pace.warm_up_seconds)
    return median([(await run_cycles(service, agents, bench.pace.seconds)).rate for _ in range(2)])


async def _start_delays_ms(service: Service, answers: Sequence[Answer]) -> list[float]:
    """Return the time from each answer to the start of the run, if the notification started one."""
    database = await asyncpg.connect(service.database_url)
    await until_cleared(database, PATIENCE_SECONDS)
    started = {row["id"]: row["started_at"].timestamp() for row in await database.fetch(STARTED)}
    await database.close()
    sent = ((UUID(answer.id), answer.epoch_seconds) for answer in answers if answer.status == 201)
    return [1000 * (started[one] - answered_at) for one, answered_at in sent if one in started]
