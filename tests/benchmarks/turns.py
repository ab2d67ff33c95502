"""The time that the loop adds to a turn, and the memory of runs that wait for their model.

The first is the time from a model's answer to the next question to it: the way back and forth over loopback,
the bill committed, a tool called, the record kept.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.acceptance.client import Client, eventually
from tests.acceptance.process import Sections
from tests.acceptance.services import OPERATOR_TOKEN
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Figure, Result, Unit, times
from tests.benchmarks.process_tree import resident_bytes

RUNS = 10
TURNS = 50
WAITING = 1_000
WARM_UP = 100
THINKS_SECONDS = 3600.0
WATCHED_SECONDS = 10.0
KIB_A_RUN_MOST = 60.0


async def measure(bench: Bench) -> Result:
    """Measure several runs of one agent in a row, each with the same number of turns."""
    async with (
        _instant_model() as url,
        bench.service({"models.openai": {"base_url": f"{url}/v1"}}) as service,
    ):
        client = service.client
        for _ in range(RUNS):
            agent = await client.create_agent(model="openai/gpt-4o", max_turns=TURNS)
            started = await client.post(f"/api/cloud/agents/{agent}/run/")
            await client.get(f"/api/cloud/agents/{agent}/runs/{started['run']}/", wait="60")
        async with client.session.get(f"{url}/gaps") as answer:
            gaps = await answer.json()
    # Between two runs is other waiting, and the first run loads what is loaded once.
    within_runs = [gap for number, gap in enumerate(gaps, start=1) if number % TURNS]
    figures = times("beside the model's time", within_runs[TURNS:])
    return Result("turns", f"The loop's part of a turn, in runs of {TURNS} turns", figures)


async def measure_waiting(bench: Bench) -> Result:
    """Start them all, observe for a while, then stop some."""
    async with _instant_model(THINKS_SECONDS) as url:
        sections: Sections = {
            "operator": {"token": OPERATOR_TOKEN},
            "runs": {"max_concurrent": WAITING + WARM_UP},
            "models.openai": {"base_url": f"{url}/v1"},
        }
        async with bench.service(sections) as service:
            client, pid = service.client, service.server.pid
            agents = [await client.create_agent(model="openai/gpt-4o") for _ in range(WARM_UP + WAITING)]
            await _start_waiting(client, agents[:WARM_UP], url, WARM_UP)
            before = resident_bytes(pid)
            await _start_waiting(client, agents[WARM_UP:], url, WARM_UP + WAITING)
            await asyncio.sleep(WATCHED_SECONDS)
            kib = (resident_bytes(pid) - before) / WAITING / 1024
            operator = Client(client.session, client.url, f"Bearer {OPERATOR_TOKEN}")
            status = await operator.get("/status/")
            stops = [await _stop_ms(client, agent) for agent in agents[:WARM_UP]]
    database = status["database"]
    in_use = database["connections"] - database["idle"]
    figures = [
        Figure("memory of a run", kib, Unit.KIB, at_most=KIB_A_RUN_MOST),
        Figure("connections of the pool in use", in_use, Unit.COUNT, at_most=0),
        Figure("loop lag, p99", status["loop_lag_ms"]["p99"], Unit.MS),
        *times("stop to stopped", stops),
    ]
    return Result("waiting", f"{WAITING:,} runs that wait for their model", figures)


async def _start_waiting(client: Client, agents: Sequence[str], model_url: str, count: int) -> None:
    """Start the agents, and wait until this many runs in all wait for the model."""
    for agent in agents:
        await client.post(f"/api/cloud/agents/{agent}/run/")

    async def all_wait() -> bool | None:
        async with client.session.get(f"{model_url}/waiting") as answer:
            return True if await answer.json() == count else None

    await eventually(all_wait, f"{count} runs to wait for the model", 60)


async def _stop_ms(client: Client, agent: str) -> float:
    began = time.perf_counter()
    await client.post(f"/api/cloud/agents/{agent}/stop/")
    return 1000 * (time.perf_counter() - began)


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
