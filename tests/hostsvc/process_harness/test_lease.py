"""The lease of the processes of runs, and the guardian that kills them when it is over."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

import pytest

from hostsvc.process_harness.cache import HarnessCache, open_cache
from hostsvc.process_harness.lease import open_lease
from storage.postgres.connections import SERVER_SETTINGS
from storage.postgres.membership import BEAT_SECONDS, CONFIRMED_SECONDS, TRUSTED_SECONDS
from storage.postgres.node import NO_LOCK_SECONDS, STUCK_SECONDS
from supervisors.clock import SystemClock
from tests.acceptance.client import eventually
from tests.processes import all_gone, is_alive


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[HarnessCache]:
    async with open_cache(tmp_path / "cache", "/srv/agents.git", SystemClock()) as cache:
        yield cache


@contextmanager
def sleeping(home: Path) -> Iterator[int]:
    """Start a process with this HOME, and kill it at the end."""
    with subprocess.Popen(["sleep", "600"], env={"HOME": str(home)}, start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


async def guardian_of(cache: HarnessCache) -> int:
    """Return the process of the guardian once it ignores SIGTERM."""

    async def look() -> int | None:
        for process in filter(str.isdigit, os.listdir("/proc")):
            if f"{cache.homes}/" in _read(process, "cmdline"):
                ignored = _read(process, "status").partition("SigIgn:")[2].split()
                return int(process) if ignored and int(ignored[0], 16) & 1 << signal.SIGTERM - 1 else None
        return None

    return await eventually(look, "the guardian to run")


def _read(process: str, name: str) -> str:
    try:
        return Path(f"/proc/{process}/{name}").read_text()
    except OSError:
        return ""


async def test_processes_of_runs_end_with_their_lease(cache: HarnessCache) -> None:
    clock, trusted_until = SystemClock(), [inf]
    with sleeping(cache.homes / "1/home"), sleeping(cache.root) as other:
        began = clock.monotonic()
        async with open_lease(cache, clock, lambda: trusted_until[0]) as lease:
            await guardian_of(cache)
            assert not lease.was_over_since(began)
            trusted_until[0] = clock.monotonic()
            await all_gone(f"HOME={cache.homes}/")
            assert lease.was_over_since(began)
            assert is_alive(other)
            trusted_until[0] = inf

            async def is_renewed() -> bool | None:
                return True if not lease.was_over_since(clock.monotonic()) else None

            await eventually(is_renewed, "the lease to be renewed")
            assert lease.was_over_since(began)


async def test_killed_guardian_is_replaced(cache: HarnessCache) -> None:
    async with open_lease(cache, SystemClock(), lambda: inf):
        first = await guardian_of(cache)
        os.kill(first, signal.SIGKILL)

        async def look() -> bool | None:
            return True if await guardian_of(cache) != first else None

        await eventually(look, "another guardian")


async def test_guardian_ends_with_its_lease_and_kills_what_is_left(cache: HarnessCache) -> None:
    with sleeping(cache.homes / "1/home"):
        async with open_lease(cache, SystemClock(), lambda: inf):
            guardian = await guardian_of(cache)
            os.kill(guardian, signal.SIGTERM)  # as systemd does, while the service drains
        assert not is_alive(guardian)
        await all_gone(f"HOME={cache.homes}/")


async def test_lease_that_ends_at_once_kills_what_is_left(cache: HarnessCache) -> None:
    with sleeping(cache.homes / "1/home"):
        async with open_lease(cache, SystemClock(), lambda: inf):
            await asyncio.sleep(0)  # the guardian begins to start
        await all_gone(f"HOME={cache.homes}/")


def test_lease_ends_before_others_can_take_the_node_for_dead() -> None:
    longest = CONFIRMED_SECONDS + TRUSTED_SECONDS  # after the last beat began
    vanished = int(SERVER_SETTINGS["tcp_user_timeout"]) / 1000 - BEAT_SECONDS + NO_LOCK_SECONDS
    assert longest + 0.5 <= min(vanished, STUCK_SECONDS)
