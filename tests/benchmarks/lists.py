"""A list of 100 notifications, against a bare handler that selects 100 rows and writes them."""

import asyncio
from functools import partial

from tests.benchmarks.bare_server import PATH as BARE_PATH
from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Result
from tests.benchmarks.requests import NOTIFICATIONS, get_request, load
from tests.benchmarks.rounds import BARE, compare, interleave

AGENTS = 20
EACH = 50
LIMIT = 100
BAR = 0.6


async def measure(bench: Bench) -> Result:
    """Measure the newest 100 notifications of an organization."""
    async with bench.services() as services, bench.bare(services[0]) as bare:
        for one in services:
            await _fill(one)
        sides = {
            one.name: partial(load, one.server, [get_request(f"{NOTIFICATIONS}?limit={LIMIT}", one.client)])
            for one in services
        }
        sides[BARE] = partial(load, bare, [get_request(BARE_PATH)])
        samples = await interleave(sides, bench.pace)
    title = f"List of {LIMIT} notifications against a select of {LIMIT}"
    return Result("list", title, compare(samples, BAR))


async def _fill(service: Service) -> None:
    agents = await service.create_agents(AGENTS)
    notify = service.client.notify
    body = "The parcel with the spare parts has arrived at the front desk."
    calls = (notify(agent, body=body, priority="low") for agent in agents for _ in range(EACH))
    await asyncio.gather(*calls)
