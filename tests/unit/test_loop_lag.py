"""The loop's lag: how late a timer fires, over the last minute."""

import asyncio
import time

from supervisors.clock import SystemClock
from supervisors.duties.loop_lag import PROBE_SECONDS, SAMPLES, LoopLag
from supervisors.snapshot import Lateness
from tests.supervisors.held_clock import HeldClock


async def probe(lag: LoopLag, clock: HeldClock, late: float) -> None:
    """One measurement by a loop that gets to its timer so late."""
    measuring = asyncio.create_task(lag.run_once())
    await asyncio.sleep(0)
    clock.advance(PROBE_SECONDS + late)
    await measuring


async def test_nothing_is_said_before_the_first_measurement() -> None:
    assert LoopLag(HeldClock()).lateness() == Lateness(None, None, None)


async def test_what_timers_are_late_is_shown_in_milliseconds() -> None:
    clock = HeldClock()
    lag = LoopLag(clock)
    for late in (0.0, 0.002, 0.0, 0.25):
        await probe(lag, clock, late)
    assert lag.lateness() == Lateness(p50=0.0, p99=2.0, max=250.0)


async def test_what_was_more_than_a_minute_ago_is_forgotten() -> None:
    clock = HeldClock()
    lag = LoopLag(clock)
    await probe(lag, clock, 1.0)
    for _ in range(SAMPLES):
        await probe(lag, clock, 0.0)
    assert lag.lateness().max == 0.0


async def test_a_loop_that_is_held_up_is_seen() -> None:
    lag = LoopLag(SystemClock())
    asyncio.get_running_loop().call_soon(time.sleep, 0.2)
    await lag.run_once()
    assert (lag.lateness().max or 0) > 140
