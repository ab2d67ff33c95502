"""One run, from its launch to its result; the supervisor stores the result.

RunError                the run failed; the message is recorded in its trace
├── RunStopped          a client or the supervisor stopped the run
├── RunInterrupted      something ended the run that says nothing about the agent
│   └── RunDrained       the service is shutting down, and the run has reached a turn boundary
├── ModelCallFailed     a model gave no complete answer (`supervisors.llm.port`)
└── RunBudgetReached    the agent or its organization has spent its daily budget
    └── RunModelUnpriced    a spending cap refuses the model, because its price is not known
"""

import asyncio
from collections.abc import Awaitable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol, TypeVar
from uuid import UUID

import structlog

from storage.agent_facts import AgentFacts, AgentState, RunEnd, RunStart
from storage.errors import DatabaseUnavailable, NodeEnded, SecretUnreadable
from storage.history.runs import MAX_SEARCHED, MAX_TOOLS, QUIET_TOOLS, JournalFacts, ToolUse
from storage.model import AgentStatus, Outcome
from storage.postgres.json_values import to_json
from supervisors.clock import Clock, Timer, first_of
from supervisors.engine.messages import Reply, Request
from supervisors.errors import AgentGone, log_failure
from supervisors.policy.decisions import active_count
from supervisors.policy.journal import entries_of
from supervisors.ports import Nodes, StateStore
from supervisors.text import excerpt

log = structlog.get_logger()
Result = TypeVar("Result")

SHUTTING_DOWN = "interrupted: the service was shutting down"
UNEXPECTED = "internal error; search the service's log for this run's id"


class RunError(Exception):
    """The run cannot go on; the message says why."""

    outcome = Outcome.FAILED
    counts_as_failure = True


class RunStopped(RunError):
    """The run was asked to stop."""

    outcome = Outcome.STOPPED


class RunInterrupted(RunError):
    """Something ended the run that says nothing about the agent, which is woken again at once."""

    outcome = Outcome.INTERRUPTED
    counts_as_failure = False


class RunDrained(RunInterrupted):
    """The service is shutting down."""


class RunBudgetReached(RunError):
    """Nothing is left to spend today."""

    outcome = Outcome.BUDGET
    counts_as_failure = False  # the next day brings a new budget


class RunModelUnpriced(RunBudgetReached):
    """The model has no known price, and a spending cap allows no such call."""

    counts_as_failure = True  # until a person changes something


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `counts_as_failure` is false for a drain and for a spent budget."""

    outcome: Outcome
    error: str = ""
    counts_as_failure: bool = True


def unknown_end(facts: AgentFacts) -> RunResult:
    """Return how a run ended of which this process knows nothing."""
    if facts.state.stopped_at is not None or facts.is_paused:
        return RunResult(Outcome.STOPPED, "stopped")
    return RunResult(Outcome.INTERRUPTED, "interrupted: the service ended, or never learned of the run")


class ActiveRun:
    """One run in this process: how it was started, requests to end it, and its result."""

    def __init__(self, facts: AgentFacts, start: RunStart, clock: Clock, nodes: Nodes) -> None:
        self.id = start.run_id
        self.agent_id = facts.state.agent_id
        self.agent_name = facts.name
        self.organization_id = facts.organization_id
        self.active_at_start = active_count(facts)  # notifications active at the start
        self.wake_reason = start.wake_reason
        self.started_at = self.due_at = start.started_at
        self.max_sleep_until = start.max_sleep_until
        self.turns = 0
        self.is_last_turn = False  # its limit allows no further turn
        self.failed_calls: list[str] = []  # the tools whose calls failed in the present turn
        self.sleep_refusals = 0  # because of such calls
        self.output = ""  # the text of the final answer, once there is one
        self.cost_usd = Decimal(0)  # of its model calls so far
        self.unpriced_calls = 0  # of those, the ones of unknown cost
        self.model_calls: list[tuple[str, float, bool]] = []  # provider, seconds, and whether it failed
        self.log: RunLog | None = None  # kept by a harness that sees all that the run does
        self.may_linger = False  # after its sleep: set by a harness whose processes may go on for a moment
        self.is_stopping = False
        self.is_draining = False
        self.is_notified = False  # the agent's queue has changed since the run read it
        self.is_capped = bool(facts.budgets)  # a spend cap applies; the supervisor keeps this up to date
        self.slept = asyncio.Event()  # set when sleep was granted; the harness may still be finishing
        self.ended = asyncio.Event()  # set when the run's end is stored
        self.ended_at: datetime | None = None  # set when sleep was granted: the end of its trace
        self.result: RunResult | None = None  # set when the run is over
        self.has_open_spans = False  # set when the run is over: spans whose ends could not be stored
        self.settled = asyncio.Event()  # set when the run is over and its end is stored
        self._waits: list[tuple[str, float]] = []  # such as `provider openai`, and since when
        self._interruptible: set[asyncio.Task[object]] = set()  # cancelled at once by a stop
        self._task: asyncio.Task[None] | None = None
        self._clock = clock
        self._nodes = nodes
        self._began = clock.monotonic()
        self._grace_timer: Timer | None = None
        self._grace_ends_at = 0.0  # on the monotonic clock, while there is a timer

    @property
    def seconds(self) -> float:
        """Return how long ago it began."""
        return self._clock.monotonic() - self._began

    @contextmanager
    def waiting_for(self, subject: str) -> Iterator[None]:
        """Mark the run as waiting for the subject while the block goes on."""
        wait = subject, self._clock.monotonic()
        self._waits.append(wait)
        try:
            yield
        finally:
            self._waits.remove(wait)

    def waits(self) -> list[tuple[str, float]]:
        """Return what the run waits for and since how many seconds, the longest wait first."""
        now = self._clock.monotonic()
        return [(subject, now - began_at) for subject, began_at in self._waits]

    def stop(self, grace_seconds: float) -> None:
        """Ask the run to end at its next await; cancel it after the grace."""
        self.is_stopping = True
        for task in self._interruptible - {asyncio.current_task()}:
            self._interruptible.discard(task)
            task.cancel()
        ends_at = self._clock.monotonic() + grace_seconds
        if self._grace_timer is None or ends_at < self._grace_ends_at:
            if self._grace_timer is not None:
                self._grace_timer.cancel()
            self._grace_ends_at, self._grace_timer = ends_at, self._clock.call_at(ends_at, self.cancel)

    def drain(self) -> None:
        """Ask the run to end at its next turn boundary."""
        self.is_draining = True

    def fall_asleep(self, ended_at: datetime) -> None:
        """Mark the run as ended by a granted sleep, which is stored; the harness may finish its work."""
        self.ended_at = ended_at
        self.slept.set()
        self.ended.set()

    def learns_of_sleep(self, state: AgentState, now: datetime) -> bool:
        """End the run if this state of its agent says that it was granted sleep; return whether."""
        if self.result is not None or self.slept.is_set():
            return False
        if state.status is not AgentStatus.SLEEPING or state.run_id or state.stopped_at:
            return False
        self.fall_asleep(state.last_ended_at or now)
        return True

    def settle(self) -> None:
        """Mark the run as over and its end as stored; wake everything that waits for that."""
        self.ended.set()
        self.settled.set()

    def cancel(self) -> None:
        if self._task is not None and self.result is None:
            self._task.cancel()

    def at_turn_boundary(self) -> None:
        """Raise RunStopped or RunDrained if the run was asked to end."""
        if self.is_stopping:
            raise RunStopped("stopped")
        if self.is_draining:
            raise RunDrained(SHUTTING_DOWN)

    async def interruptible(self, awaitable: Awaitable[Result]) -> Result:
        """Await something that a stop cancels; raise RunStopped then.

        It begins only while this node is confirmed: others may take its runs for dead and start the next.
        A stop cancels the awaiting task, as asyncio.timeout does, so that no second task is needed.
        """
        if self.is_stopping:
            asyncio.ensure_future(awaitable).cancel()
            raise RunStopped("stopped")
        if not self._nodes.is_confirmed:
            awaitable = self._once_confirmed(awaitable)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("interruptible() must be called in a task")
        cancelled_before = task.cancelling()
        self._interruptible.add(task)
        try:
            return await awaitable
        except (asyncio.CancelledError, Exception):
            if task in self._interruptible or task.uncancel() > cancelled_before:
                raise
            raise RunStopped("stopped") from None
        finally:
            self._interruptible.discard(task)

    async def _once_confirmed(self, awaitable: Awaitable[Result]) -> Result:
        with self.waiting_for("the database to confirm this node"):
            try:
                await self._nodes.wait_until_confirmed()
            except BaseException:
                asyncio.ensure_future(awaitable).cancel()  # it has not begun, and never will
                raise
        return await awaitable

    async def carry_out(self, harness: "Harness", ask: "Ask", max_seconds: float) -> None:
        """Execute the run by the harness; set `result` in any case."""
        self._task = asyncio.current_task()
        structlog.contextvars.bind_contextvars(agent=str(self.agent_id), run=str(self.id))
        result = RunResult(Outcome.INTERRUPTED, SHUTTING_DOWN, counts_as_failure=False)
        try:
            async with asyncio.timeout(max_seconds) as limit:
                self.at_turn_boundary()
                result = await harness.execute(self, ask)
        except asyncio.CancelledError:
            result = RunResult(Outcome.STOPPED, "stopped") if self.is_stopping else result
        except RunError as error:
            result = RunResult(error.outcome, str(error), error.counts_as_failure)
        except AgentGone:
            result = RunResult(Outcome.STOPPED, "deleted")
        except SecretUnreadable as error:
            result = RunResult(Outcome.FAILED, str(error))
        except (DatabaseUnavailable, NodeEnded) as error:
            log_failure(log, "run failed: the database is unavailable", error)
            result = RunResult(Outcome.FAILED, "the database was unavailable")
        except Exception as error:  # the outermost edge of a run: the agent keeps its schedule
            if isinstance(error, TimeoutError) and limit.expired():
                result = RunResult(Outcome.TIMED_OUT, f"timed out after {max_seconds:g} s")
            else:
                log.exception("run failed: unexpected error in the harness")
                result = RunResult(Outcome.FAILED, UNEXPECTED)
        finally:
            self.result = RunResult(Outcome.SLEPT) if self.slept.is_set() else result


class Ask(Protocol):
    """Asks an agent's supervisor, as `Registry.ask` does."""

    async def __call__(self, agent_id: UUID, request: Request[Reply]) -> Reply: ...


class Harness(Protocol):
    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Work until the agent sleeps or has nothing more to do; raise RunError if that fails."""
        ...


MAX_NAME = 100  # characters
MAX_ERROR = 200
OTHERS = "(other tools)"  # a model may call tools that do not exist, by any number of names


@dataclass(slots=True)
class _Calls:
    count: int = 0
    errors: int = 0
    last_error: str = ""
    failed_in: int = 0  # the last turn in which a call failed
    succeeded_in: int = 0


@dataclass(slots=True)
class RunLog:
    """The tool calls of one run, turn by turn, and the notifications that it cleared.

    `unanswered`: contacts whose messages it cleared, if its text was sent to nobody, or if it broke off
    before it sent one. Those of the `unsent` messages are left out: those messages need a person.
    """

    cleared: dict[UUID, None] = field(default_factory=dict)
    unanswered: set[UUID] = field(default_factory=set)
    unsent: set[UUID] = field(default_factory=set)
    succeeded_in: int = 0  # the last turn in which a call succeeded
    _tools: dict[str, _Calls] = field(default_factory=dict)
    _changed_in: int = 0  # the last turn in which a tool changed something

    def record_call(self, tool: str, turn: int, error: str = "") -> None:
        """Count a call of the tool in this turn. `error` is blank if the call succeeded."""
        name = excerpt(tool, MAX_NAME)
        if name not in self._tools and len(self._tools) >= MAX_TOOLS - 1:
            name = OTHERS
        calls = self._tools.setdefault(name, _Calls())
        calls.count += 1
        if error:
            calls.errors += 1
            calls.last_error = excerpt(error, MAX_ERROR)
            calls.failed_in = turn
            return
        calls.succeeded_in = self.succeeded_in = turn
        if name not in QUIET_TOOLS:
            self._changed_in = turn

    def called(self, tools: Collection[str]) -> bool:
        """Return whether one of these tools was called."""
        return not self._tools.keys().isdisjoint(tools)

    def record_cleared(self, notification_id: UUID) -> None:
        """Note that the run cleared this notification; clearing it again counts once."""
        if len(self.cleared) < MAX_SEARCHED:
            self.cleared[notification_id] = None

    def facts(self, cost_usd: Decimal, unpriced_calls: int = 0) -> JournalFacts:
        """Return what the run did so far, the most used tools first."""
        by_use = sorted(self._tools.items(), key=lambda item: -item[1].count)
        tools = (
            ToolUse(
                name,
                calls.count,
                calls.errors,
                calls.last_error,
                unsolved=bool(calls.errors) and calls.failed_in >= max(calls.succeeded_in, self._changed_in),
            )
            for name, calls in by_use
        )
        unanswered = tuple(sorted(self.unanswered - self.unsent))
        return JournalFacts(tuple(tools), tuple(self.cleared), cost_usd, unpriced_calls, unanswered)


async def end_of(
    store: StateStore, run_id: UUID, run: ActiveRun | None, result: RunResult, ended_at: datetime
) -> RunEnd:
    """Return the end of a run to store, with its journal; `run` is None for one of a process that is gone.

    Such a run, and one of a process harness, left its traces only in the database.
    """
    if run is not None and run.log is not None:
        facts = run.log.facts(run.cost_usd, run.unpriced_calls)
    else:
        facts = await store.get_journal_facts(run_id)
    journal = to_json(entries_of(facts)).decode()
    turns, output = (run.turns, run.output) if run else (0, "")
    return RunEnd(run_id, result.outcome, ended_at, turns, result.error, journal, output)


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
