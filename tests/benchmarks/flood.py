"""Notifications at three times the capacity for cycles: the service has to bend, and not to break.

It has to answer (201 or 503), to finish runs as before, to serve others, and to be normal soon afterwards.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from tests.acceptance.client import Client, sign_up
from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result, Unit, percentile, times
from tests.benchmarks.open_loop import Answer
from tests.benchmarks.posts import post_requests
from tests.benchmarks.process_tree import resident_bytes
from tests.benchmarks.reminders import STARTED, until_cleared
from tests.benchmarks.requests import get_request, send_at_rate
from tests.benchmarks.steady import measure_capacity

AGENTS = 1000
LOAD = 3.0
SECONDS, QUICK_SECONDS = 30.0, 10.0
PROBES_A_SECOND = 20
PROMPT_MS_MOST = 100.0
KEPT_SHARE = 0.6
MEMORY_GROWTH_MOST = 1.25
NORMAL_SECONDS_MOST = 5.0
PATIENCE_SECONDS = 60.0

ENDED = "SELECT count(*) FROM run WHERE ended_at BETWEEN to_timestamp($1) AND to_timestamp($2)"


@dataclass(frozen=True, slots=True)
class Flood:
    """The observations of a flood, whose times are seconds of the epoch."""

    answers: Sequence[Answer]
    health: Sequence[Answer]
    late_ms: Sequence[float]
    ended_a_second: float
    normal_after_seconds: float


async def measure(bench: Bench) -> Result:
    """Measure what a flood beyond the capacity does to itself and to others."""
    async with bench.service() as service:
        agents = await service.create_agents(AGENTS)
        capacity = await measure_capacity(service, agents, bench)
        before = resident_bytes(service.server.pid)
        flood = await _flood(service, agents, LOAD * capacity, QUICK_SECONDS if bench.is_quick else SECONDS)
        growth = resident_bytes(service.server.pid) / before
    posts = [1000 * answer.took_seconds for answer in flood.answers]
    health = [1000 * answer.took_seconds for answer in flood.health]
    others = sum(answer.status not in (201, 503) for answer in flood.answers) / len(flood.answers)
    figures = [
        Figure("capacity for cycles", capacity, Unit.PER_SECOND),
        *times("POST to its answer", posts, p99_at_most=PROMPT_MS_MOST),
        Figure("refused with 503", 100 * _share_of(503, flood.answers), Unit.PERCENT),
        Figure("answered otherwise", 100 * others, Unit.PERCENT, at_most=0),
        Figure("finished runs / capacity", flood.ended_a_second / capacity, Unit.RATIO, at_least=KEPT_SHARE),
        Figure("memory after / before", growth, Unit.RATIO, at_most=MEMORY_GROWTH_MOST),
        Figure("reminders of others late, worst", max(flood.late_ms), Unit.MS, at_most=PROMPT_MS_MOST),
        Figure("GET /healthz, p99", percentile(0.99, health), Unit.MS, at_most=PROMPT_MS_MOST),
        Figure("normal after", flood.normal_after_seconds, Unit.SECONDS, at_most=NORMAL_SECONDS_MOST),
    ]
    return Result("flood", f"High notifications at {LOAD:g} times the capacity for cycles", figures)


async def _flood(service: Service, agents: Sequence[str], rate: float, seconds: float) -> Flood:
    other = await sign_up(service.client.session, service.server.url)
    reminders = await _remind(other, int(seconds) - 2)
    health = [get_request("/healthz")]
    answers, health_answers = await asyncio.gather(
        send_at_rate(service.server, post_requests(service, agents, "high"), rate, seconds),
        send_at_rate(service.server, health, PROBES_A_SECOND, seconds),
    )
    began = min(answer.epoch_seconds - answer.took_seconds for answer in answers)
    ended = began + seconds
    database = await asyncpg.connect(service.database_url)
    await until_cleared(database, PATIENCE_SECONDS)
    normal_after = max(0.0, datetime.now(UTC).timestamp() - ended)
    runs = await database.fetchval(ENDED, began + 1, ended)
    started = {row["id"]: row["started_at"] for row in await database.fetch(STARTED)}
    await database.close()
    late = [1000 * (started[one] - at).total_seconds() for one, at in reminders.items() if one in started]
    if len(late) < len(reminders):
        late.append(1000 * PATIENCE_SECONDS)  # one has not started at all
    return Flood(answers, health_answers, late, runs / (seconds - 1), normal_after)


async def _remind(client: Client, count: int) -> dict[UUID, datetime]:
    """Create a reminder for each second to come, each of an agent of its own, and return their times."""
    agents = [await client.create_agent(name=f"Reminded {number}") for number in range(count)]
    first = datetime.now(UTC) + timedelta(seconds=2)
    due = [first + timedelta(seconds=number) for number in range(count)]
    made = [
        await client.notify(agent, scheduled_for=at.isoformat())
        for agent, at in zip(agents, due, strict=True)
    ]
    return {UUID(one["id"]): at for one, at in zip(made, due, strict=True)}


def _share_of(status: int, answers: Sequence[Answer]) -> float:
    return sum(answer.status == status for answer in answers) / len(answers)
