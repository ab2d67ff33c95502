"""Requests at a steady rate beside a backup of a million notifications: how much later they are answered."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import asyncpg

from storage.postgres.connections import SERVER_SETTINGS
from tests.benchmarks.bench import Bench, Database, Service
from tests.benchmarks.figures import Figure, Result, Unit, percentile
from tests.benchmarks.posts import post_requests
from tests.benchmarks.requests import get_request, send_at_rate

NOTIFICATIONS, AGENTS = 1_000_000, 500
RATE = 500.0  # requests a second, half of them writes
SECONDS, ROUNDS, QUICK_ROUNDS = 10.0, 5, 1
SLOWER_MOST = 2.0

ADD_NOTIFICATIONS = """
INSERT INTO notification (
    id, organization_id, agent_id, title, body, priority, created_at, cleared, cleared_at)
SELECT gen_random_uuid(), a.organization_id, a.id, 'Delivery report',
       'The parcel with the spare parts has arrived at the front desk ' || n, 'low',
       now() - n * interval '1 s', true, now()
FROM (SELECT id, organization_id, row_number() OVER (ORDER BY id) - 1 AS place FROM agent) a
JOIN generate_series(1, $1::integer) AS n ON n % $2::integer = a.place
"""


async def measure(bench: Bench) -> Result:
    """Send the same requests without and with a backup, in turn."""
    async with bench.database() as database, bench.service_on(database) as service:
        agents = await service.create_agents(AGENTS)
        await _fill(database)
        requests, quiet, beside, backups = mixed(service, agents), [], [], []
        for _ in range(QUICK_ROUNDS if bench.is_quick else ROUNDS):
            quiet.append(await p99(service, requests))
            backing_up = asyncio.create_task(_back_up(database, bench.directory / "backup.sql.gz"))
            beside.append(await p99(service, requests, backing_up))
            backups.append(await backing_up)
    ratios = [busy / idle for idle, busy in zip(quiet, beside, strict=True)]
    figures = [
        Figure("p99 without a backup", median(quiet), Unit.MS),
        Figure("p99 beside a backup", median(beside), Unit.MS),
        Figure("times as long", median(ratios), Unit.RATIO, at_most=SLOWER_MOST),
        Figure("a backup beside requests", median(backups), Unit.SECONDS),
    ]
    return Result(
        "backup", f"A backup of {NOTIFICATIONS:,} notifications beside {RATE:g} requests/s", figures
    )


async def _fill(database: Database) -> None:
    connection = await asyncpg.connect(database.url, server_settings=SERVER_SETTINGS)
    await connection.execute(ADD_NOTIFICATIONS, NOTIFICATIONS, AGENTS, timeout=300)
    await connection.execute("VACUUM ANALYZE", timeout=300)
    await connection.execute("CHECKPOINT", timeout=300)
    await connection.close()


def mixed(service: Service, agents: Sequence[str]) -> list[str]:
    gets = [get_request(f"/api/cloud/agents/{agent}/", service.client) for agent in agents]
    posts = post_requests(service, agents)
    return [request for pair in zip(gets, posts, strict=False) for request in pair]


async def p99(
    service: Service, requests: Sequence[str], during: "asyncio.Task[float] | None" = None
) -> float:
    """Return the p99 in milliseconds, of the answers that came while the task was at work if there is one.

    A refusal counts as an answer: on a machine that does too much, there are some without a backup, too.
    """
    ended_at: list[float] = []
    if during is not None:
        during.add_done_callback(lambda _: ended_at.append(time.time()))
    answers = await send_at_rate(service.server, requests, RATE, SECONDS)
    until = min(ended_at, default=time.time())
    return percentile(0.99, [1000 * each.took_seconds for each in answers if each.epoch_seconds <= until])


async def _back_up(database: Database, file: Path) -> float:
    """Make a backup by the command, and return how many seconds it took."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hostsvc", "backup", str(file)),
        env=os.environ | {"HOSTSVC__DATABASE__URL": database.url},
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0
    return time.perf_counter() - began
