"""ActiveRun: how stops, errors and time limits end the work of a harness."""

import asyncio
from collections.abc import Callable, Coroutine
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import uvloop
from structlog.testing import capture_logs

from storage.errors import SecretUnreadable
from storage.history.runs import MAX_SEARCHED, MAX_TOOLS, JournalFacts, ToolUse
from storage.ids import new_id
from storage.model import Outcome
from supervisors.engine.messages import Reply, Request
from supervisors.engine.run import OTHERS, ActiveRun, Ask, DrainResult, RunError, RunLog, RunResult
from tests.patience import PATIENCE_SECONDS
from tests.supervisors.agent_facts import started_run
from tests.supervisors.world import World


async def nobody_answers(agent_id: UUID, request: Request[Reply]) -> Reply:
    raise AssertionError(f"{request} was asked of {agent_id}")


class Deaf:
    """A harness that ignores stops."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        never: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()
        self.begun.set()
        return await never


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_cancelled_run_may_be_stopped_again(run_loop: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def stop_twice() -> None:
        run, harness = started_run(), Deaf()

        carried_out = asyncio.create_task(run.carry_out(harness, nobody_answers, max_seconds=60))
        await harness.begun.wait()
        run.stop(grace_seconds=0)
        run.stop(grace_seconds=600)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await carried_out
        assert run.result is not None
        assert run.result.outcome == "stopped"

    run_loop(stop_twice())


class Working:
    """A harness with interruptible work, given by the test."""

    def __init__(self, work: Callable[[ActiveRun], Coroutine[Any, Any, object]]) -> None:
        self._work = work

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        await run.interruptible(self._work(run))
        run.at_turn_boundary()
        return RunResult(Outcome.ENDED)


async def outcome_of(
    work: Callable[[ActiveRun], Coroutine[Any, Any, object]],
    during_work: Callable[[ActiveRun], None] = lambda _: None,
    max_seconds: float = 20,
) -> Outcome:
    """Return the outcome of a run with this work; `during_work` is called once it has begun."""
    return (await result_of(work, during_work, max_seconds)).outcome


async def result_of(
    work: Callable[[ActiveRun], Coroutine[Any, Any, object]],
    during_work: Callable[[ActiveRun], None] = lambda _: None,
    max_seconds: float = 20,
) -> RunResult:
    run = started_run()

    carried_out = asyncio.create_task(run.carry_out(Working(work), nobody_answers, max_seconds))
    await asyncio.sleep(0)
    during_work(run)
    await carried_out
    assert run.result is not None
    return run.result


async def endless(run: ActiveRun) -> None:
    await asyncio.Event().wait()


async def test_stop_interrupts_the_work() -> None:
    assert await outcome_of(endless, lambda run: run.stop(60)) is Outcome.STOPPED


async def test_run_that_stops_itself_ends_at_its_turn_boundary() -> None:
    steps = []

    async def work(run: ActiveRun) -> None:
        run.stop(60)
        await asyncio.sleep(0)
        steps.append("went on")

    assert await outcome_of(work) is Outcome.STOPPED
    assert steps == ["went on"]


async def test_work_after_a_stop_is_not_begun() -> None:
    steps = []

    async def work(run: ActiveRun) -> None:
        run.stop(60)
        await run.interruptible(step())

    async def step() -> None:
        steps.append("done")

    assert await outcome_of(work) is Outcome.STOPPED
    assert steps == []


async def test_error_during_a_stop_counts_as_stopped() -> None:
    async def work(run: ActiveRun) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise RunError("the connection broke")

    assert await outcome_of(work, lambda run: run.stop(60)) is Outcome.STOPPED


async def test_error_without_a_stop_counts_as_failed() -> None:
    async def work(run: ActiveRun) -> None:
        raise RunError("the connection broke")

    assert await outcome_of(work) is Outcome.FAILED


async def test_unreadable_secret_is_named_as_the_failure() -> None:
    async def work(run: ActiveRun) -> None:
        raise SecretUnreadable("template.tool_call_secret of 7", "its key is missing")

    result = await result_of(work)
    assert result.outcome is Outcome.FAILED
    assert "template.tool_call_secret of 7 cannot be decrypted: its key is missing" in str(result)


async def test_run_over_its_time_limit_is_timed_out() -> None:
    assert await outcome_of(endless, max_seconds=0.05) is Outcome.TIMED_OUT


async def test_work_that_ignores_a_stop_is_cancelled_after_grace() -> None:
    async def work(run: ActiveRun) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    assert await outcome_of(work, lambda run: run.stop(0.05)) is Outcome.STOPPED


def test_log_counts_calls_and_keeps_last_error() -> None:
    log, cleared = RunLog(), new_id()
    log.record_call("sleep", 1, "first")
    log.record_call("memory", 1)
    log.record_call("sleep", 2, "second")
    log.record_cleared(cleared)
    log.record_cleared(cleared)
    assert log.facts(Decimal(1)) == JournalFacts(
        (ToolUse("sleep", 2, 2, "second", unsolved=True), ToolUse("memory", 1, 0, "")), (cleared,), Decimal(1)
    )


@pytest.mark.parametrize(
    ("later", "turn", "unsolved"),
    [
        ("book", 2, False),
        ("memory", 2, False),
        ("memory", 1, True),  # in the same turn: the model did not know of the failure
        ("clear_notification", 2, True),
        ("", 2, True),
    ],
)
def test_failed_call_is_unsolved_until_a_later_turn_changes_something(
    later: str, turn: int, unsolved: bool
) -> None:
    log = RunLog()
    log.record_call("book", 1, "no")
    if later:
        log.record_call(later, turn)
    [book] = [tool for tool in log.facts(Decimal(0)).tools if tool.name == "book"]
    assert book.unsolved is unsolved


def test_invented_tool_names_are_counted_together() -> None:
    log = RunLog()
    for number in range(1000):
        log.record_call(f"tool {number}", 1, "unknown")
    tools = log.facts(Decimal(0)).tools
    assert len(tools) == MAX_TOOLS
    assert tools[0] == ToolUse(OTHERS, 1000 - MAX_TOOLS + 1, 1000 - MAX_TOOLS + 1, "unknown", unsolved=True)


def test_names_and_errors_are_cut() -> None:
    log = RunLog()
    log.record_call("x" * 10_000, 1, "y" * 10_000)
    [tool] = log.facts(Decimal(0)).tools
    assert (len(tool.name), len(tool.last_error)) == (101, 201)


def test_cleared_notifications_are_bounded() -> None:
    log = RunLog()
    for _ in range(MAX_SEARCHED + 1):
        log.record_cleared(new_id())
    assert len(log.facts(Decimal(0)).cleared) == MAX_SEARCHED


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
    assert await drain == DrainResult(ended=0, interrupted=1)
