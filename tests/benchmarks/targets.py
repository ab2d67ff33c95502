"""The servers to measure: the service, and the bare handler as its reference."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from tempfile import NamedTemporaryFile
from urllib.parse import urlsplit

from tests.acceptance.client import Client
from tests.benchmarks.bare_server import PATH as BARE_PATH
from tests.benchmarks.load import Measured
from tests.benchmarks.open_loop import Answered

CONNECTIONS = 64
SERVICE_PATH = "/api/defaults/notifications/"


@dataclass(frozen=True, slots=True)
class Row:
    """The rates per second of each round, of the service and of the bare handler."""

    name: str
    bar: float
    unit: str
    service: Sequence[float]
    bare: Sequence[float]
    notice: str = ""

    @property
    def ratio(self) -> float:
        return median(self.service) / median(self.bare)

    @property
    def met(self) -> bool:
        return self.ratio >= self.bar

    def __str__(self) -> str:
        verdict = "met" if self.met else "not met"
        lines = [
            self.name,
            f"  {self.unit:<9}{_shown(self.service)}",
            f"  {'bare':<9}{_shown(self.bare)}",
            f"  ratio {self.ratio:.2f} (bar {self.bar}): {verdict}",
        ]
        return "\n".join([*lines, f"  {self.notice}"] if self.notice else lines)


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the requests that are sent to it in turn."""

    url: str
    requests: Sequence[str]

    async def load(self, count: int) -> Measured:
        """Send `count` requests from another process as fast as they are answered."""
        printed = await self._by_another_process("tests.benchmarks.load", CONNECTIONS, count)
        return Measured(**json.loads(printed))

    async def each_at_its_time(self, a_second: int) -> list[Answered]:
        """Send each request once from another process, this many per second."""
        with NamedTemporaryFile() as output:
            await self._by_another_process("tests.benchmarks.open_loop", a_second, output.name)
            return [(text, at, took) for text, at, took in json.load(output)]

    async def _by_another_process(self, module: str, *arguments: object) -> bytes:
        """Run a load generator in another process and return what it prints."""
        address = urlsplit(self.url)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", module, str(address.hostname), str(address.port), *map(str, arguments)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate(json.dumps(self.requests).encode())
        if process.returncode:
            raise RuntimeError(f"the load generator failed against {self.url}")
        return output


@asynccontextmanager
async def bare_target(database_url: str, agents: Sequence[str], organization: str) -> AsyncIterator[Target]:
    """Return the bare handler, which inserts for these agents of an organization."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.benchmarks.bare_server", database_url, organization),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        yield Target(url, _requests(BARE_PATH, agents))
    finally:
        process.kill()
        await process.wait()


def service_target(url: str, client: Client, agents: Sequence[str], priority: str = "low") -> Target:
    """Return the service; low notifications for these agents, which wake none of them, are sent to it."""
    return Target(url, _requests(SERVICE_PATH, agents, client, priority))


def _requests(
    path: str, agents: Sequence[str], client: Client | None = None, priority: str = "low"
) -> list[str]:
    """Return whole requests as sent over the wire, one for each agent."""
    return [_request(path, agent, client.authorization if client else "", priority) for agent in agents]


def _request(path: str, agent: str, authorization: str, priority: str) -> str:
    body = json.dumps(
        {
            "agent": agent,
            "title": "Delivery report",
            "body": "The parcel with the spare parts has arrived at the front desk.",
            "priority": priority,
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
