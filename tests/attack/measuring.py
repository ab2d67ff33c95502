"""What a bystander notices of an attack: another tenant's latency, and the memory of the process."""

import asyncio
import math
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import aiohttp

from tests.attack.findings import Finding, holds, none_of
from tests.attack.target import NOTIFICATIONS, Target
from tests.processes import children

PACE_SECONDS = 0.02
MAX_IN_FLIGHT = 40  # beside a flood an organization has room for 51 writes
SAMPLE_SECONDS = 0.05


@dataclass(slots=True)
class Latencies:
    """How long the victim's requests took, in milliseconds, and how those failed that did."""

    milliseconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    answered: int = 0  # before the end of the attack

    @property
    def failures(self) -> Finding:
        """Return whether none failed, and some did not have to wait for the end of the attack."""
        if not self.answered:
            return holds("another tenant is answered during the attack", False)
        return none_of("another tenant's requests that failed", self.failed, len(self.milliseconds))

    @property
    def p99(self) -> float:
        return percentile(self.milliseconds, 0.99)

    @property
    def longest(self) -> float:
        return max(self.milliseconds, default=0.0)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else 0.0


@asynccontextmanager
async def victim_works(target: Target) -> AsyncIterator[Latencies]:
    """Let the victim create notifications at a steady pace, however slow the answers are.

    If too many are not answered yet, the next one waits, and its time counts from when it was due.
    """
    latencies, places = Latencies(), asyncio.Semaphore(MAX_IN_FLIGHT)
    async with asyncio.TaskGroup() as group:

        async def go_on() -> None:
            while True:
                group.create_task(_create_notification(target, latencies, places))
                await asyncio.sleep(PACE_SECONDS)

        pacing = group.create_task(go_on())
        try:
            yield latencies
        finally:
            latencies.answered = len(latencies.milliseconds)
            pacing.cancel()


async def _create_notification(target: Target, latencies: Latencies, places: asyncio.Semaphore) -> None:
    client = target.victim.key
    started = target.clock()
    try:
        async with (
            places,
            client.session.post(
                client.url + NOTIFICATIONS,
                json={"agent": target.victim.agent, "title": "Work", "priority": "low"},
                headers={"Authorization": client.authorization},
            ) as response,
        ):
            text = await response.text()
        if response.status != 201:
            latencies.failed.append(f"{response.status} {text}")
    except (aiohttp.ClientError, TimeoutError) as error:
        latencies.failed.append(repr(error))
    latencies.milliseconds.append((target.clock() - started) * 1000)


def resident_mb(pid: int | None) -> float | None:
    """Return the resident memory of the process; None if it is not known."""
    if pid is None:
        return None
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def processor_seconds(pid: int | None) -> float | None:
    """Return how long the process and its workers have computed; None if that is not known."""
    return None if pid is None else seconds_computed(pid)


def seconds_computed(pid: int) -> float:
    """Return how long the process and those that it has started have computed, with those that have ended."""
    ticks = 0
    for each in (pid, *children(pid)):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended just now
            ticks += sum(map(int, Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def open_descriptors(pid: int | None) -> int | None:
    return None if pid is None else len(os.listdir(f"/proc/{pid}/fd"))


@dataclass(slots=True)
class Memory:
    """The growth of the process in MB since the measurement began; None without a process id."""

    growth_mb: float | None = None
    is_too_much: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def memory_of(target: Target, break_off_mb: float = 3_000) -> AsyncIterator[Memory]:
    """Sample the memory while the block lasts. `is_too_much` asks the attack to break off."""
    memory, before = Memory(), resident_mb(target.pid)

    async def sample() -> None:
        while (now := resident_mb(target.pid)) is not None and before is not None:
            memory.growth_mb = max(memory.growth_mb or 0.0, now - before)
            if memory.growth_mb > break_off_mb:
                memory.is_too_much.set()
            await asyncio.sleep(SAMPLE_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield memory
    finally:
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling


async def growth_after(target: Target, before: float | None, bar_mb: float, seconds: float) -> float | None:
    """Wait until the process has returned to its former size, at most so long; return what is left."""
    deadline = perf_counter() + seconds
    while (now := resident_mb(target.pid)) is not None and before is not None:
        if now - before <= bar_mb or perf_counter() > deadline:
            return max(0.0, now - before)
        await asyncio.sleep(SAMPLE_SECONDS)
    return None
