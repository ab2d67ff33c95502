"""The delay of one client's reads while another client reads a list of 200,000 notifications."""

import asyncio
from functools import partial
from uuid import UUID

import asyncpg

from tests.acceptance.client import sign_up
from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Figure, Result, Unit, times
from tests.benchmarks.requests import NOTIFICATIONS, get_request, load, send_at_rate

ITEMS = 200_000
P99_MS_MOST = 10.0
READS_A_SECOND = 200
SECONDS, QUICK_SECONDS = 15.0, 6.0

FILL = """
INSERT INTO notification (id, organization_id, agent_id, title, body, priority, created_at)
SELECT gen_random_uuid(), a.organization_id, a.id, 'Report ' || n, repeat('The parcel is there. ', 3),
       'low', now() - n * interval '1 s'
FROM agent a, generate_series(1, $2::integer) AS n WHERE a.id = $1
"""


async def measure(bench: Bench) -> Result:
    """Read an agent of another organization at a fixed rate, first alone and then beside the list."""
    async with bench.service() as service:
        await _fill(service)
        other = await sign_up(service.client.session, service.server.url)
        reads = [get_request(f"/api/cloud/agents/{await other.create_agent()}/", other)]
        seconds = QUICK_SECONDS if bench.is_quick else SECONDS
        read = partial(send_at_rate, service.server, reads, READS_A_SECOND)
        alone = await read(seconds)
        lists = load(service.server, [get_request(NOTIFICATIONS, service.client)], seconds + 1, connections=1)
        sample, beside = await asyncio.gather(lists, read(seconds))
    figures = [
        *times("GET alone", [1000 * answer.took_seconds for answer in alone]),
        *times("GET beside the list", [1000 * answer.took_seconds for answer in beside], P99_MS_MOST),
        Figure("items of the list", sample.rate * ITEMS, Unit.PER_SECOND),
        Figure("server, of 1,000 items", 1000 * sample.server_ms / ITEMS, Unit.CPU),
        Figure("PostgreSQL, of 1,000 items", 1000 * sample.postgres_ms / ITEMS, Unit.CPU),
    ]
    return Result("longlist", f"GET of another client beside a list of {ITEMS:,}", figures)


async def _fill(service: Service) -> None:
    agent = await service.client.create_agent()
    database = await asyncpg.connect(service.database_url)
    await database.execute(FILL, UUID(agent), ITEMS, timeout=300)
    await database.execute("VACUUM ANALYZE notification", timeout=300)
    await database.close()
