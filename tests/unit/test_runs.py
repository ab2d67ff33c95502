"""A run's end, as far as the event loop has a say in it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import pytest
import uvloop

from storage.model import RunStart
from supervisors.clock import SystemClock
from supervisors.messages import Question
from supervisors.runs import Ask, Run, RunResult
from tests.storage.factories import NOW


class Deaf:
    """A harness that hears of no stop."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def execute(self, run: Run, ask: Ask) -> RunResult:
        never: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()
        self.begun.set()
        return await never


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_a_run_that_was_forced_to_end_may_be_stopped_again(
    run_loop: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def stop_twice() -> None:
        start = RunStart(UUID(int=2), "reminder", None, None, NOW, "run")
        run, harness = Run(UUID(int=1), start, 0, SystemClock()), Deaf()

        async def ask(agent_id: UUID, question: Question) -> None: ...

        carried_out = asyncio.create_task(run.carry_out(harness, ask, max_seconds=60))
        await harness.begun.wait()
        run.stop(grace_seconds=0)
        run.stop(grace_seconds=5)
        async with asyncio.timeout(2):
            await carried_out
        assert run.result is not None
        assert run.result.outcome == "stopped"

    run_loop(stop_twice())
