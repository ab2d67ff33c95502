"""The drain: how long runs may still work, what the log says of it, and how it is hurried."""

import asyncio

from structlog.testing import capture_logs

from supervisors.engine.drain import DrainResult
from tests.supervisors.world import World


async def test_drain_counts_runs_that_ended_and_that_were_interrupted(world: World) -> None:
    first, second = await world.start(await world.agent()), await world.start(await world.agent())
    drain = asyncio.create_task(world.registry.drain(60))
    await asyncio.sleep(0)
    await first.sleeps()
    await second.reach_a_turn_boundary()
    assert await drain == DrainResult(ended=1, interrupted=1)


async def test_drain_reports_each_change_and_every_ten_seconds(world: World) -> None:
    runs = [await world.start(await world.agent()) for _ in range(3)]
    with capture_logs() as logged:
        drain = asyncio.create_task(world.registry.drain(60))
        await _go_on(world, 11)
        await runs[0].end()
        await _go_on(world, 5)
        for run in runs[1:]:
            await run.end()
        await drain
    waits = [line for line in logged if line["event"] == "waiting for runs"]
    assert [(line["runs"], line["seconds_left"]) for line in waits] == [(3, 50.0), (2, 48.0)]


async def _go_on(world: World, seconds: int) -> None:
    """Let time pass, second by second, so that the drain acts at its own moments."""
    for _ in range(seconds):
        await world.advance(1)
        for _ in range(10):
            await asyncio.sleep(0)


async def test_hurried_drain_interrupts_runs_at_once(world: World) -> None:
    await world.start(await world.agent())
    hurried = asyncio.Event()
    drain = asyncio.create_task(world.registry.drain(3600, hurried))
    await asyncio.sleep(0)
    assert not drain.done()
    hurried.set()
    async with asyncio.timeout(5):
        assert await drain == DrainResult(ended=0, interrupted=1)
