"""The time that the loop adds to a turn, and the memory of runs that wait for their model.

The first is the time from a model's answer to the next question to it: the way back and forth over loopback,
the bill committed, a tool called, the record kept.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.process import Sections, serving
from tests.acceptance.services import OPERATOR_TOKEN
from tests.benchmarks.punctuality import Row, Times

RUNS = 10
TURNS = 50
WAITING = 1_000
WARM_UP = 100
THINKS_SECONDS = 3600.0
WATCHED_SECONDS = 10.0
KIB_A_RUN_MOST = 60.0


async def measure(directory: Path, database_url: str) -> Row:
    """Measure several runs of one agent in a row, each with the same number of turns."""
    async with _instant_model() as url:
        sections: Sections = {
            "server": {"port": 0},
            "database": {"url": database_url},
            "models.openai": {"base_url": f"{url}/v1"},
        }
        async with serving(directory, "turns", sections) as process, aiohttp.ClientSession() as session:
            client = await sign_up(session, process.url)
            for _ in range(RUNS):
                agent = await client.create_agent(model="openai/gpt-4o", max_turns=TURNS)
                started = await client.post(f"/api/cloud/agents/{agent}/run/")
                await client.get(f"/api/cloud/agents/{agent}/runs/{started['run']}/", wait="60")
            async with session.get(f"{url}/gaps") as answer:
                gaps = await answer.json()
    # Between two runs is other waiting, and the first run loads what is loaded once.
    within_runs = [gap for number, gap in enumerate(gaps, start=1) if number % TURNS]
    return Row("Turns", [Times("beside the model's time", within_runs[TURNS:])])


@dataclass(frozen=True, slots=True)
class WaitingRuns:
    """Many runs that wait for their model: the memory of each, and the delays of everything else."""

    kib_a_run: float
    lag_p99_ms: float
    connections_used: int
    stops_ms: Sequence[float]

    @property
    def met(self) -> bool:
        return self.kib_a_run <= KIB_A_RUN_MOST and self.connections_used == 0

    def __str__(self) -> str:
        return (
            f"{WAITING:,} runs that wait for their model\n"
            f"  {self.kib_a_run:.1f} KiB each (bar {KIB_A_RUN_MOST:g}), "
            f"{self.connections_used} connections of the pool in use, loop lag p99 {self.lag_p99_ms:.1f} ms\n"
            f"{Times('stop to stopped', self.stops_ms)}"
        )


async def measure_waiting(directory: Path, database_url: str) -> WaitingRuns:
    """Start them all, observe for a while, then stop some."""
    async with _instant_model(THINKS_SECONDS) as url:
        sections: Sections = {
            "server": {"port": 0},
            "database": {"url": database_url},
            "operator": {"token": OPERATOR_TOKEN},
            "runs": {"max_concurrent": WAITING + WARM_UP},
            "models.openai": {"base_url": f"{url}/v1"},
        }
        async with serving(directory, "waiting", sections) as process, aiohttp.ClientSession() as session:
            client = await sign_up(session, process.url)
            agents = [await client.create_agent(model="openai/gpt-4o") for _ in range(WARM_UP + WAITING)]

            async def all_wait(count: int) -> bool | None:
                async with session.get(f"{url}/waiting") as answer:
                    return True if await answer.json() == count else None

            async def start(some: Sequence[str]) -> None:
                for agent in some:
                    await client.post(f"/api/cloud/agents/{agent}/run/")

            await start(agents[:WARM_UP])
            await eventually(lambda: all_wait(WARM_UP), "the first runs to wait", 60)
            before = _resident_kib(process.pid)
            await start(agents[WARM_UP:])
            await eventually(lambda: all_wait(WARM_UP + WAITING), "all runs to wait", 60)
            await asyncio.sleep(WATCHED_SECONDS)
            kib = (_resident_kib(process.pid) - before) / WAITING
            status = await Client(session, process.url, f"Bearer {OPERATOR_TOKEN}").get("/status/")
            stops = [await _stop_ms(client, agent) for agent in agents[:WARM_UP]]
    database = status["database"]
    in_use = database["connections"] - database["idle"]
    return WaitingRuns(kib, status["loop_lag_ms"]["p99"], in_use, stops)


async def _stop_ms(client: Client, agent: str) -> float:
    began = time.perf_counter()
    await client.post(f"/api/cloud/agents/{agent}/stop/")
    return 1000 * (time.perf_counter() - began)


def _resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


@asynccontextmanager
async def _instant_model(thinks_seconds: float = 0.0) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.benchmarks.instant_model", str(thinks_seconds)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()
