"""Whole cycles: a high notification, a run that lists it, clears it and sleeps, its trace and spans stored.

Measured against the same bare handler, which does one insert where a cycle does all that.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import Sections, serving
from tests.benchmarks.targets import Row, Target, bare_target

NAME = "Wake, work, clear, sleep"
BAR = 0.1
AGENTS = 300
WARM_UP_SECONDS = 2.0
SECONDS = 5.0
REQUESTS = 20_000
ROUNDS = 3
POLL_SECONDS = 0.003
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

ASLEEP_SINCE = """
SELECT agent_id, last_ended_at FROM agent_state WHERE status = 'sleeping' AND last_ended_at > $1
ORDER BY last_ended_at
"""


@dataclass(slots=True)
class Cycles:
    """Keeps agents busy: each agent that has gone to sleep is sent the next notification."""

    client: Client
    database: "asyncpg.Connection[Any]"
    agents: Sequence[str]
    _seen: datetime = field(default=LONG_AGO)

    async def begin(self) -> None:
        await self._wake(self.agents)

    async def go_on(self, seconds: float) -> float:
        """Return the cycles per second."""
        count, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            asleep = await self.database.fetch(ASLEEP_SINCE, self._seen)
            if asleep:
                self._seen = asleep[-1]["last_ended_at"]
                count += len(asleep)
                await self._wake([str(row["agent_id"]) for row in asleep])
            else:
                await asyncio.sleep(POLL_SECONDS)
        return count / passed

    async def _wake(self, agents: Sequence[str]) -> None:
        await asyncio.gather(*(self.client.notify(agent) for agent in agents))


async def measure(directory: Path, database_url: str) -> Row:
    """Measure three rounds of each in turn, both on this fresh database."""
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}}
    connector = aiohttp.TCPConnector(limit=64)
    async with (
        serving(directory, "cycles", sections) as process,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        client = await sign_up(session, process.url)
        agents = [await client.create_agent(name=f"Agent {number}") for number in range(AGENTS)]
        organization = (await client.agent(agents[0]))["organization"]
        database = await asyncpg.connect(database_url)
        cycles = Cycles(client, database, agents)
        await cycles.begin()
        others = [await client.create_agent(name=f"Other {number}") for number in range(AGENTS)]
        async with bare_target(database_url, others, organization) as bare:
            row = await _alternate(cycles, bare)
        await database.close()
        return row


async def _alternate(cycles: Cycles, bare: Target) -> Row:
    """Alternate between the two. The agents sleep while the bare handler is measured."""
    await cycles.go_on(WARM_UP_SECONDS)
    await bare.load(REQUESTS // 5)
    pairs = [(await cycles.go_on(SECONDS), (await bare.load(REQUESTS)).seconds) for _ in range(ROUNDS)]
    return Row(
        NAME,
        BAR,
        "cycles",
        service=[rate for rate, _ in pairs],
        bare=[REQUESTS / seconds for _, seconds in pairs],
    )
