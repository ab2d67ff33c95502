"""The generator of cycles, a separate process: each agent gets its next notification when it sleeps again.

    python -m tests.benchmarks.cycle_load HOST:PORT,… DATABASE_URL SECONDS < requests

stdin holds whole requests as JSON, by the id of the agent that each wakes. Nothing waits for a batch: an
agent that sleeps is sent to over the next free connection, whatever the others do. A connection whose request
is refused because the service is busy pauses. After SECONDS it sends nothing more, and waits until all agents
sleep. Prints

- `operations`: the cycles, those after SECONDS included
- `seconds` and `in_time`: SECONDS, which begin when the load is steady, after a cycle for each agent, and the
  cycles that ended in them
- `refused`: the requests that were refused
- `busy`: for how much of the time this process used a core
- `watching`: PostgreSQL's seconds of processor time for the question which agents sleep, to be subtracted
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
import uvloop

from tests.benchmarks.connection import CONNECTIONS, Connection, parse_addresses
from tests.benchmarks.process_tree import own_cpu_seconds

POLL_SECONDS = 0.02
SWEEP_SECONDS = 0.5
MAX_COMMIT_DELAY = timedelta(seconds=0.1)  # of most commits; a sweep finds those that were visible later
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.1  # after a refusal
BUSY = 503
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

ASLEEP_SINCE = """
SELECT agent_id, last_ended_at FROM agent_state WHERE status = 'sleeping' AND last_ended_at > $1
"""


class Sender(Connection):
    """Sends to the agents that wait for their next notification, one after the other."""

    def __init__(self, load: "CycleLoad") -> None:
        super().__init__()
        self._load = load
        self._agent: UUID

    def send(self, agent: UUID, request: bytes) -> None:
        self._agent = agent
        self.transport.write(request)

    def answered(self, status: int, body: bytes) -> None:
        if status == BUSY:
            self._load.on_refused(self, self._agent)
        elif status != 201:
            self.failed(f"an answer that is no success: {status} {body[:500]!r}")
        else:
            self._load.on_free(self)

    def failed(self, message: str) -> None:
        self._load.on_failure(message)


class CycleLoad:
    """Keeps agents busy until its time is over."""

    def __init__(self, requests: Mapping[UUID, bytes], database: "asyncpg.Connection[Any]") -> None:
        self._requests = requests
        self._database = database
        self._asleep = deque(requests)
        self._free: deque[Sender] = deque()
        self._slept_at = dict.fromkeys(requests, LONG_AGO)
        self._awake: set[UUID] = set()
        self._failure: str = ""
        self._is_over = False
        self.cycles = 0
        self.refused = 0

    async def start(self, addresses: Sequence[tuple[str, int]]) -> None:
        """Learn when each agent slept last, and send to all of them."""
        for agent, slept_at in await self._database.fetch(ASLEEP_SINCE, LONG_AGO):
            self._slept_at[agent] = slept_at
        loop = asyncio.get_running_loop()
        for number in range(CONNECTIONS):
            address = addresses[number % len(addresses)]
            _, sender = await loop.create_connection(partial(Sender, self), *address)
            self.on_free(sender)

    async def settle(self) -> None:
        """Keep on until as many cycles have ended as there are agents, which are all sent to at first."""
        until = time.perf_counter() + PATIENCE_SECONDS
        while self.cycles < len(self._requests) and time.perf_counter() < until:
            await self._poll(until)

    async def keep_on(self, seconds: float) -> None:
        """Send to each agent that sleeps again."""
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            await self._poll(until)

    async def finish(self) -> None:
        """Send nothing more, and wait until all agents sleep."""
        self._is_over = True
        until = time.perf_counter() + PATIENCE_SECONDS
        while self._awake:
            await self._poll(until)
            if time.perf_counter() > until:
                raise TimeoutError(f"{len(self._awake)} agents do not sleep after {PATIENCE_SECONDS} s")

    def on_free(self, sender: Sender) -> None:
        self._free.append(sender)
        self._send()

    def on_refused(self, sender: Sender, agent: UUID) -> None:
        self.refused += 1
        self._awake.discard(agent)
        self._asleep.append(agent)
        asyncio.get_running_loop().call_later(PAUSE_SECONDS, self.on_free, sender)

    def on_failure(self, message: str) -> None:
        self._failure = self._failure or message

    async def _poll(self, until: float) -> None:
        """Look often for those that slept lately, and now and then for all."""
        sweep_at = min(until, time.perf_counter() + SWEEP_SECONDS)
        while time.perf_counter() < sweep_at and (self._awake or not self._is_over):
            await asyncio.sleep(POLL_SECONDS)
            await self._look(max(self._slept_at.values()) - MAX_COMMIT_DELAY)
        await self._look(LONG_AGO)

    async def _look(self, since: datetime) -> None:
        for agent, slept_at in await self._database.fetch(ASLEEP_SINCE, since):
            if agent in self._awake and slept_at > self._slept_at[agent]:
                self._slept_at[agent] = slept_at
                self._awake.discard(agent)
                self._asleep.append(agent)
                self.cycles += 1
        if self._failure:
            raise ConnectionError(self._failure)
        self._send()

    def _send(self) -> None:
        while self._free and self._asleep and not self._is_over:
            agent = self._asleep.popleft()
            self._awake.add(agent)
            self._free.popleft().send(agent, self._requests[agent])


async def measure(
    addresses: Sequence[tuple[str, int]], database_url: str, seconds: float, requests: Mapping[UUID, bytes]
) -> dict[str, float]:
    """Run cycles for this many seconds, then wait for the last ones."""
    database = await asyncpg.connect(database_url)
    backend = await database.fetchval("SELECT pg_backend_pid()")
    load = CycleLoad(requests, database)
    await load.start(addresses)
    await load.settle()
    before, busy_before, began = load.cycles, time.process_time(), time.perf_counter()
    await load.keep_on(seconds)
    in_time, took = load.cycles - before, time.perf_counter() - began
    busy = (time.process_time() - busy_before) / took
    await load.finish()
    watching = own_cpu_seconds(backend)
    await database.close()
    return {
        "operations": load.cycles,
        "seconds": took,
        "in_time": in_time,
        "refused": load.refused,
        "busy": busy,
        "watching": watching,
    }


def main() -> None:
    addresses, database_url, seconds = sys.argv[1:]
    requests = {UUID(agent): text.encode() for agent, text in json.load(sys.stdin).items()}
    measured = uvloop.run(measure(parse_addresses(addresses), database_url, float(seconds), requests))
    print(json.dumps(measured))  # noqa: T201


if __name__ == "__main__":
    main()
