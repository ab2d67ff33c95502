"""The system clock on both event loops: asyncio and uvloop."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import uvloop

from supervisors.clock import SystemClock, first_of


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_monotonic_time_is_finer_than_a_millisecond(
    run_loop: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def read_often() -> None:
        clock = SystemClock()
        moments = [clock.monotonic() for _ in range(1000)]
        assert any(0 < later - earlier < 0.001 for earlier, later in pairwise(moments))

    run_loop(read_often())


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_call_at_a_past_moment_is_made(
    run_loop: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def wait_for_calls() -> None:
        clock, calls = SystemClock(), asyncio.Queue[str]()
        clock.call_at(clock.monotonic() + 0.001, lambda: calls.put_nowait("ahead"))
        clock.call_at(clock.monotonic() - 1, lambda: calls.put_nowait("passed"))
        assert {await calls.get(), await calls.get()} == {"ahead", "passed"}

    run_loop(wait_for_calls())


async def test_first_of_cancels_the_awaitables_that_are_not_done() -> None:
    done, never = asyncio.Event(), asyncio.create_task(asyncio.Event().wait())
    done.set()
    await first_of(done.wait(), never)
    await asyncio.wait({never})
    assert never.cancelled()


def test_correction_is_added_to_the_wall_clock_until_it_is_zero() -> None:
    clock = SystemClock()

    clock.correct(3600.0)
    assert clock.now() - datetime.now(UTC) > timedelta(minutes=59)
    clock.correct(0.0)
    assert clock.now() - datetime.now(UTC) < timedelta(minutes=1)
