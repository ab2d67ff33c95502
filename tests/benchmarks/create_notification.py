"""POST of a notification: authenticated, validated and durable, against a bare handler with one insert."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import aiohttp

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import Sections, serving
from tests.benchmarks.bare_server import PATH as BARE_PATH
from tests.benchmarks.load import Measured

NAME = "POST a notification"
BAR = 1.3
AGENTS = 100
CONNECTIONS = 64
WARM_UP = 4_000
REQUESTS = 20_000
ROUNDS = 3
SERVICE_PATH = "/api/defaults/notifications/"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured: requests a second of each round, and how busy the generator was at most."""

    service: Sequence[float]
    bare: Sequence[float]
    busiest: float

    @property
    def ratio(self) -> float:
        return median(self.service) / median(self.bare)

    @property
    def met(self) -> bool:
        return self.ratio >= BAR

    def __str__(self) -> str:
        verdict = "met" if self.met else "not met"
        return (
            f"{NAME}\n"
            f"  service  {_shown(self.service)}\n"
            f"  bare     {_shown(self.bare)}\n"
            f"  ratio {self.ratio:.2f} (bar {BAR}): {verdict}\n"
            f"  load generator busy at most {self.busiest:.0%} of a core"
        )


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the requests that are sent to it in turn."""

    url: str
    requests: Sequence[str]

    async def load(self, count: int) -> Measured:
        """Send `count` of them, from another process."""
        address = urlsplit(self.url)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.benchmarks.load"),
            *(str(address.hostname), str(address.port), str(CONNECTIONS), str(count)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate(json.dumps(self.requests).encode())
        if process.returncode:
            raise RuntimeError(f"the load generator failed against {self.url}")
        return Measured(**json.loads(output))


async def measure(directory: Path, database_url: str) -> Row:
    """Three rounds of each server in turn, both on this fresh database."""
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    async with serving(directory, "service", sections) as process, aiohttp.ClientSession() as session:
        client = await sign_up(session, process.url)
        agents = [await client.create_agent(name=f"Agent {number}") for number in range(AGENTS)]
        organization = (await client.agent(agents[0]))["organization"]
        async with _bare_server(database_url, organization) as bare_url:
            service = Target(process.url, _requests(SERVICE_PATH, agents, client))
            bare = Target(bare_url, _requests(BARE_PATH, agents))
            return await _alternate(service, bare)


async def _alternate(service: Target, bare: Target) -> Row:
    for target in (service, bare):
        await target.load(WARM_UP)
    pairs = [(await service.load(REQUESTS), await bare.load(REQUESTS)) for _ in range(ROUNDS)]
    return Row(
        service=[REQUESTS / ours.seconds for ours, _ in pairs],
        bare=[REQUESTS / theirs.seconds for _, theirs in pairs],
        busiest=max(measured.busy for pair in pairs for measured in pair),
    )


@asynccontextmanager
async def _bare_server(database_url: str, organization: str) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.benchmarks.bare_server", database_url, organization),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


def _requests(path: str, agents: Sequence[str], client: Client | None = None) -> list[str]:
    """Whole requests as they go over the wire, one for each agent: low-priority, so that nobody is woken."""
    return [_request(path, agent, client.authorization if client else "") for agent in agents]


def _request(path: str, agent: str, authorization: str) -> str:
    body = json.dumps(
        {
            "agent": agent,
            "title": "Delivery report",
            "body": "The parcel with the spare parts has arrived at the front desk.",
            "priority": "low",
        }
    )
    head = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *([f"Authorization: {authorization}"] if authorization else []),
    ]
    return "\r\n".join([*head, "", body])


def _shown(rates: Sequence[float]) -> str:
    rounds = ", ".join(f"{rate:,.0f}" for rate in rates)
    return f"{median(rates):>7,.0f}/s   (rounds: {rounds})"
