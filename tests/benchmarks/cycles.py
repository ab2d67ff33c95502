"""Whole cycles: a high notification, a run that lists it, clears it and sleeps, its trace and spans stored.

Measured against the same bare handler, which does one insert where a cycle does all that.
"""

import json
from collections.abc import Sequence
from functools import partial

from tests.benchmarks.bench import Bench, Service
from tests.benchmarks.figures import Result
from tests.benchmarks.posts import insert_requests, post_requests
from tests.benchmarks.requests import generate, load
from tests.benchmarks.rounds import BARE, Sample, compare, interleave

AGENTS = 1000
CPU_BAR = 1.15  # against another commit
TITLE = f"Wake, work, clear, sleep with {AGENTS:,} agents, against one insert"


async def measure(bench: Bench) -> Result:
    """Measure cycles and bare inserts for other agents in turn."""
    async with bench.services() as services, bench.bare(services[0]) as bare:
        sides = {one.name: partial(run_cycles, one, await one.create_agents(AGENTS)) for one in services}
        others = await services[0].create_agents(AGENTS, "Other")
        sides[BARE] = partial(load, bare, insert_requests(others))
        samples = await interleave(sides, bench.pace)
    return Result("cycles", TITLE, compare(samples, cpu_bar=CPU_BAR))


async def run_cycles(service: Service, agents: Sequence[str], seconds: float) -> Sample:
    """Keep these agents busy, and return the cycles a second and what each has cost."""
    requests = dict(zip(agents, post_requests(service, agents, "high"), strict=True))
    before = service.server.cpu()
    printed = json.loads(
        await generate("cycle_load", requests, service.server.urls, service.database_url, seconds)
    )
    server, postgres = (now - then for then, now in zip(before, service.server.cpu(), strict=True))
    return Sample(
        rate=printed["in_time"] / printed["seconds"],
        operations=int(printed["operations"]),
        server_cpu=server,
        postgres_cpu=postgres - printed["watching"],
        busy=printed["busy"],
    )
