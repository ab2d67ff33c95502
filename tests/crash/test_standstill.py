"""PostgreSQL stands still under load: it keeps its connections, answers nothing, and goes on later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import aiohttp
import pytest

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.services import Services
from tests.crash.cycles import STANDSTILL_SECONDS
from tests.crash.faults import OwnPostgres
from tests.crash.load import Load
from tests.crash.recording import all_is_kept

pytestmark = pytest.mark.xdist_group("own postgres")

ACQUIRE_SECONDS = 1.0
COMMAND_SECONDS = 3.0
NOTICE_SECONDS = 2.0  # until /readyz must say it
SLACK_SECONDS = 5.0  # for a loaded machine; with it the bounds are below the standstill
RESUME_SECONDS = 5.0
GROWTH_KIB = 64 * 1024
MAX_LINES = 10  # of warnings and errors, however many requests are refused


@dataclass
class Stopwatch:
    """How long each request of a session took, and when /readyz answered what."""

    seconds: list[float] = field(default_factory=list)
    readiness: list[tuple[float, int, str]] = field(default_factory=list)

    def trace(self) -> aiohttp.TraceConfig:
        trace = aiohttp.TraceConfig()

        async def start(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
            context.started_at = monotonic()

        async def end(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
            self.seconds.append(monotonic() - context.started_at)

        trace.on_request_start.append(start)
        trace.on_request_end.append(end)
        trace.on_request_exception.append(end)
        return trace

    @asynccontextmanager
    async def watching(self, client: Client) -> AsyncIterator[None]:
        """Ask /readyz again and again while the block lasts."""
        task = asyncio.create_task(self._watch(client))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def first(self, status: int, since: float, reason: str = "") -> float:
        """Return after how many seconds /readyz first answered with this status and reason."""

        async def look() -> float | None:
            answers = (answer for answer in self.readiness if answer[0] >= since and answer[1] == status)
            return next((at - since for at, _, body in answers if reason in body), None)

        return await eventually(look, f"/readyz to answer {status} {reason}")

    async def _watch(self, client: Client) -> None:
        while True:
            async with client.session.get(f"{client.url}/readyz") as response:
                self.readiness.append((monotonic(), response.status, await response.text()))
            await asyncio.sleep(0.1)


async def test_standstill_of_postgresql_is_answered_noticed_and_survived(
    own_services: Services, own_postgres: OwnPostgres
) -> None:
    standstill = timedelta(seconds=STANDSTILL_SECONDS + COMMAND_SECONDS)
    database = {"acquire_timeout_seconds": ACQUIRE_SECONDS, "command_timeout_seconds": COMMAND_SECONDS}
    service = await own_services.start(database=database)
    watch = Stopwatch()
    async with aiohttp.ClientSession(trace_configs=[watch.trace()]) as session:
        load = Load(await sign_up(session, service.url), seed=41)
        async with load.going_on(), watch.watching(load.client):
            await load.acknowledged(100)
            memory = _resident_kib(service.pid)
            with own_postgres.stopped():
                stopped_at = monotonic()
                noticed = await watch.first(503, stopped_at)
                explained = await watch.first(503, stopped_at, "the server does not answer")
                await asyncio.sleep(STANDSTILL_SECONDS - (monotonic() - stopped_at))
            resumed = await watch.first(200, monotonic())
            await load.acknowledged(100)
            growth = _resident_kib(service.pid) - memory
        await all_is_kept(load, own_services, standstill)
    assert noticed <= explained < NOTICE_SECONDS + SLACK_SECONDS
    assert resumed < RESUME_SECONDS + SLACK_SECONDS
    assert max(watch.seconds) < ACQUIRE_SECONDS + COMMAND_SECONDS + SLACK_SECONDS
    assert growth < GROWTH_KIB
    complaints = [line for line in service.log().splitlines() if '"level":"info"' not in line]
    assert len(complaints) < MAX_LINES, "\n".join(complaints)


def _resident_kib(pid: int) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line]
    return int(line.split()[1])
