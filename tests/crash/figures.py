"""`python -m tests.crash.figures`: how soon a service is there again. Exit 1 if a figure misses its bar.

Absolute times depend on the machine and on what else it does, so its load is told beside them.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import aiohttp
import aiopg

from tests.acceptance.client import sign_up
from tests.acceptance.services import Services
from tests.crash.cluster import NODES, node_id, under_load
from tests.crash.faults import OwnPostgres

AGENTS = 100_000
INTERRUPTED = 1_000
STARTS = 5
TAKEOVERS = 10
BAR_SECONDS = 3.0

FILL = """
INSERT INTO agent (id, organization_id, name, model, created_at)
SELECT gen_random_uuid(), o.id, 'Agent ' || n, 'builtin/inbox', now()
FROM (SELECT id FROM organization LIMIT 1) o, generate_series(1, %s) AS n;
INSERT INTO agent_state (agent_id) SELECT id FROM agent ON CONFLICT DO NOTHING;
INSERT INTO notification (organization_id, agent_id, title, priority)
SELECT organization_id, id, 'Hello', 'low' FROM agent;
ANALYZE
"""

INTERRUPT = """
WITH begun AS (
    INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at)
    SELECT gen_random_uuid(), a.id, a.organization_id, 'run_requested', now()
    FROM agent a JOIN agent_state s ON s.agent_id = a.id
    WHERE s.status = 'sleeping' ORDER BY a.id LIMIT %s RETURNING id, agent_id, organization_id, started_at
), traced AS (
    INSERT INTO trace (id, organization_id, agent_id, name, started_at)
    SELECT id, organization_id, agent_id, 'invoke_agent', started_at FROM begun
)
UPDATE agent_state s SET status = 'running', run_id = begun.id, run_started_at = begun.started_at,
    last_started_at = begun.started_at, next_due_at = NULL
FROM begun WHERE s.agent_id = begun.agent_id
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """Repeated measurements of one duration, in seconds."""

    what: str
    seconds: Sequence[float]

    @property
    def met(self) -> bool:
        return max(self.seconds) <= BAR_SECONDS

    def __str__(self) -> str:
        verdict = "ok" if self.met else "MISSED"
        middle, worst = median(self.seconds), max(self.seconds)
        return (
            f"{self.what}: median {middle:.2f} s, worst {worst:.2f} s of {len(self.seconds)} "
            f"(bar {BAR_SECONDS:g} s, {verdict}; load of the machine {os.getloadavg()[0]:.1f})"
        )


async def measure_start(services: Services, session: aiohttp.ClientSession) -> Figure:
    """Measure from exec to "listening on", after a kill -9 that interrupted many runs."""
    first = await services.start()
    await sign_up(session, first.url)
    await _execute(services.database["url"], FILL, AGENTS)
    await first.kill()
    seconds = []
    for _ in range(STARTS):
        await _execute(services.database["url"], INTERRUPT, INTERRUPTED)
        began = perf_counter()
        service = await services.start()
        seconds.append(perf_counter() - began)
        await service.kill()
    return Figure(f"ready after kill -9 with {AGENTS:,} agents, {INTERRUPTED:,} interrupted", seconds)


async def measure_takeover(services: Services, session: aiohttp.ClientSession) -> Figure:
    """Measure from the kill -9 of a node under load until others attend its agents."""
    seconds = []
    async with under_load(services, session, seed=1) as cluster:
        for number in range(TAKEOVERS):
            victim = number % NODES
            killed = await node_id(cluster.nodes[victim])
            began = perf_counter()
            await cluster.kill(victim)
            await cluster.until_dead(killed, BAR_SECONDS)
            await cluster.all_attended(BAR_SECONDS)
            seconds.append(perf_counter() - began)
            await cluster.replace(victim)
    return Figure("others attend the agents of a killed node under load", seconds)


async def main() -> int:
    figures = []
    async with aiohttp.ClientSession() as session:
        for measure in (measure_start, measure_takeover):
            directory = Path(tempfile.mkdtemp(prefix="hostsvc-crash-"))
            postgres = OwnPostgres(directory / "data")
            services = Services(directory, {"url": postgres.url})
            try:
                figures.append(await measure(services, session))
                print(figures[-1], flush=True)  # noqa: T201
            finally:
                await services.end()
                postgres.stop()
                shutil.rmtree(directory)
    return 0 if all(figure.met for figure in figures) else 1


async def _execute(database_url: str, sql: str, *parameters: int) -> None:
    async with aiopg.connect(database_url, timeout=120) as connection, connection.cursor() as cursor:
        await cursor.execute(sql, parameters)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
