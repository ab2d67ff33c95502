"""The drain: active runs may end by themselves before the service does."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

import structlog

from storage.model import Outcome
from supervisors.clock import Clock, first_of
from supervisors.engine.run import ActiveRun

log = structlog.get_logger()

CANCEL_SECONDS = 5.0
REPORT_SECONDS = 2.0  # at least, between two lines about the runs that are left
MAX_REPORT_SECONDS = 10.0  # until the next line, even if no run has ended


@dataclass(frozen=True, slots=True)
class DrainResult:
    """How many runs ended, and how many were interrupted, which go on at the next start."""

    ended: int
    interrupted: int


async def drain_runs(
    runs: Collection[ActiveRun], seconds: float, clock: Clock, hurried: asyncio.Event
) -> DrainResult:
    """Give the runs `seconds` to end at a turn boundary, then cancel the rest. Their ends are stored.

    `hurried` cancels them at once.
    """
    for run in runs:
        run.drain()
    await _wait_for_runs(runs, seconds, clock, hurried)
    for run in runs:
        run.cancel()
    await wait_until_settled(runs, CANCEL_SECONDS)
    ended = sum(run.result is not None and run.result.outcome is not Outcome.INTERRUPTED for run in runs)
    return DrainResult(ended, len(runs) - ended)


async def _wait_for_runs(
    runs: Collection[ActiveRun], seconds: float, clock: Clock, hurried: asyncio.Event
) -> None:
    """Wait until the runs are settled, the time is up, or hurry is requested; log how many are left."""
    reported_at = clock.monotonic()
    ends_at, reported = reported_at + seconds, len(runs)
    while True:
        now = clock.monotonic()
        remaining = sum(not run.settled.is_set() for run in runs)
        if not remaining or now >= ends_at or hurried.is_set():
            return
        if now - reported_at >= (REPORT_SECONDS if remaining < reported else MAX_REPORT_SECONDS):
            log.info("waiting for runs", runs=remaining, seconds_left=round(ends_at - now, 1))
            reported_at, reported = now, remaining
        pause = clock.sleep(min(REPORT_SECONDS, ends_at - now))
        await first_of(_settled(runs), hurried.wait(), pause)


async def wait_until_settled(runs: Collection[ActiveRun], seconds: float) -> None:
    """Wait until all runs are settled, but at most `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await _settled(runs)


async def _settled(runs: Collection[ActiveRun]) -> None:
    for run in runs:
        await run.settled.wait()
