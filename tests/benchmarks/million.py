"""A million agents with a reminder each: the start, the memory, an idle minute, and requests beside them."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import asyncpg

from storage.postgres.connections import SERVER_SETTINGS
from tests.benchmarks.bench import Bench, Database, Service
from tests.benchmarks.figures import Figure, Result, Unit, median_ratio
from tests.benchmarks.posts import post_requests
from tests.benchmarks.process_tree import cpu_seconds, resident_bytes
from tests.benchmarks.requests import get_request, load
from tests.benchmarks.rounds import Measure, interleave

COUNT = 1_000_000
AGENTS = 500  # that are read and sent to, in each database
IDLE_SECONDS, QUICK_IDLE_SECONDS = 60.0, 20.0
SETTLE_SECONDS = 5.0
START_SECONDS_MOST = 1.5
RESIDENT_MB_MOST = 80.0
IDLE_CPU_SECONDS_MOST = 0.5
SLOWER_MOST = 1.15

ADD_AGENTS = """
INSERT INTO agent (id, organization_id, name, model, created_at)
SELECT gen_random_uuid(), $1, 'Agent ' || n, 'builtin/inbox', now() - n * interval '1 s'
FROM generate_series(1, $2::integer) AS n
"""
# Due within days from tomorrow on, so that nothing happens while the service is measured.
ADD_STATES = """
INSERT INTO agent_state (agent_id, organization_id, next_due_at)
SELECT a.id, a.organization_id, $2::timestamptz + row_number() OVER () * interval '0.5 s'
FROM agent a WHERE a.organization_id = $1
"""
ADD_REMINDERS = """
INSERT INTO notification (
    id, organization_id, agent_id, title, priority, created_at, scheduled_for, activated_at)
SELECT gen_random_uuid(), organization_id, agent_id, 'Reminder', 'high', now(), next_due_at, next_due_at
FROM agent_state WHERE organization_id = $1 AND next_due_at IS NOT NULL
"""
Requests = Callable[[Service, Sequence[str]], list[str]]


async def measure(bench: Bench) -> Result:
    """Measure the service on a full database, and the same requests on an empty one."""
    async with bench.database() as database, bench.service() as empty:
        await _fill(bench, database)
        began = time.perf_counter()
        async with bench.process_on(database) as process:
            started_after = time.perf_counter() - began
            idle = await _idle_seconds(bench, database)
            resident = resident_bytes(process.pid)
        async with bench.service_on(database) as full:
            gets = await _in_turn(bench, full, empty, _gets)
            posts = await _in_turn(bench, full, empty, post_requests)
    figures = [
        Figure("start", started_after, Unit.SECONDS, at_most=START_SECONDS_MOST),
        Figure("resident memory", resident / 1e6, Unit.MB, at_most=RESIDENT_MB_MOST),
        Figure("PostgreSQL in an idle minute", idle, Unit.SECONDS, at_most=IDLE_CPU_SECONDS_MOST),
        Figure("GET of an agent, empty / full", gets, Unit.RATIO, at_most=SLOWER_MOST),
        Figure("POST of a notification, empty / full", posts, Unit.RATIO, at_most=SLOWER_MOST),
    ]
    return Result("million", f"{COUNT:,} agents with a reminder each", figures)


async def _fill(bench: Bench, database: Database) -> None:
    """Let a service create the tables and an organization, and add the agents while it is stopped."""
    async with bench.service_on(database) as service:
        organization = UUID(service.organization)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    # Changes made over this connection count as the service's own.
    connection = await asyncpg.connect(database.url, server_settings=SERVER_SETTINGS)
    await connection.execute(ADD_AGENTS, organization, COUNT, timeout=300)
    await connection.execute(ADD_STATES, organization, tomorrow, timeout=300)
    await connection.execute(ADD_REMINDERS, organization, timeout=300)
    await connection.execute("VACUUM ANALYZE", timeout=300)
    await connection.execute("CHECKPOINT", timeout=300)
    await connection.close()


async def _idle_seconds(bench: Bench, database: Database) -> float:
    """Return PostgreSQL's seconds of processor time in an idle minute."""
    seconds = QUICK_IDLE_SECONDS if bench.is_quick else IDLE_SECONDS
    await asyncio.sleep(SETTLE_SECONDS)
    before = cpu_seconds(database.postmaster)
    await asyncio.sleep(seconds)
    return (cpu_seconds(database.postmaster) - before) * 60 / seconds


async def _in_turn(bench: Bench, full: Service, empty: Service, requests: Requests) -> float:
    """Return the median of the rate on the empty database divided by that on the full one."""
    sides: Mapping[str, Measure] = {
        "full": partial(load, full.server, requests(full, await full.create_agents(AGENTS))),
        "empty": partial(load, empty.server, requests(empty, await empty.create_agents(AGENTS))),
    }
    samples = await interleave(sides, bench.pace)
    return median_ratio([one.rate for one in samples["empty"]], [one.rate for one in samples["full"]])


def _gets(service: Service, agents: Sequence[str]) -> list[str]:
    return [get_request(f"/api/cloud/agents/{agent}/", service.client) for agent in agents]
