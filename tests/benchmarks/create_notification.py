"""POST of a notification: authenticated, validated and durable, against a bare handler with one insert."""

from pathlib import Path

import aiohttp

from tests.acceptance.client import sign_up
from tests.acceptance.process import Sections, serving
from tests.benchmarks.targets import Row, Target, bare_target, service_target

NAME = "POST a notification"
BAR = 1.3
AGENTS = 100
WARM_UP = 4_000
REQUESTS = 20_000
ROUNDS = 3


async def measure(directory: Path, database_url: str) -> Row:
    """Measure three rounds of each server in turn, both on this fresh database."""
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    async with serving(directory, "service", sections) as process, aiohttp.ClientSession() as session:
        client = await sign_up(session, process.url)
        agents = [await client.create_agent(name=f"Agent {number}") for number in range(AGENTS)]
        organization = (await client.agent(agents[0]))["organization"]
        async with bare_target(database_url, agents, organization) as bare:
            return await _alternate(service_target(process.url, client, agents), bare)


async def _alternate(service: Target, bare: Target) -> Row:
    for target in (service, bare):
        await target.load(WARM_UP)
    pairs = [(await service.load(REQUESTS), await bare.load(REQUESTS)) for _ in range(ROUNDS)]
    busiest = max(measured.busy for pair in pairs for measured in pair)
    return Row(
        NAME,
        BAR,
        "service",
        service=[REQUESTS / ours.seconds for ours, _ in pairs],
        bare=[REQUESTS / theirs.seconds for _, theirs in pairs],
        notice=f"load generator busy at most {busiest:.0%} of a core",
    )
