"""A run from its launch to its result. The supervisor stores what becomes of it; here it is carried through.

RunError                what the harness could not do; its message stands in the trace
├── RunStopped          somebody asked the run to stop
├── RunDrained          the service is shutting down, and the run is at a turn boundary
└── RunBudgetReached    what the agent or its organization may spend in a day is spent
"""

import asyncio
from collections.abc import Awaitable, Collection
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import UUID

import structlog

from storage.errors import DatabaseUnavailable, LeadershipLost
from storage.model import Outcome, RunStart
from supervisors.clock import Clock, Timer
from supervisors.engine.messages import Request
from supervisors.errors import AgentGone

log = structlog.get_logger()
Answer = TypeVar("Answer")


class RunError(Exception):
    """The run cannot go on; the message says why."""


class RunStopped(RunError):
    """The run was asked to stop."""


class RunDrained(RunError):
    """The service is shutting down."""


class RunBudgetReached(RunError):
    """Nothing is left to spend today."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `counts`: whether it is a failure of the agent's, if it is one at all."""

    outcome: Outcome
    error: str = ""
    counts: bool = True


class ActiveRun:
    """One run in this process: what it was started with, how it is asked to end, what came of it."""

    __slots__ = (
        "_clock",
        "_end",
        "_ends_at",
        "_interruptible",
        "_task",
        "active_at_start",
        "agent_id",
        "draining",
        "ended",
        "id",
        "is_capped",
        "max_sleep_until",
        "notified",
        "result",
        "settled",
        "slept",
        "started_at",
        "stopping",
        "turns",
        "wake_reason",
    )

    def __init__(self, agent_id: UUID, start: RunStart, active_at_start: int, clock: Clock) -> None:
        self.id = start.run_id
        self.agent_id = agent_id
        self.active_at_start = active_at_start  # notifications active at the start
        self.wake_reason = start.wake_reason
        self.started_at = start.started_at
        self.max_sleep_until = start.max_sleep_until
        self.turns = 0
        self.stopping = False
        self.draining = False
        self.notified = False  # something came into the agent's queue that the run has not looked at
        self.is_capped = False  # whether a cap on spending is known; its supervisor keeps that up to date
        self.slept = asyncio.Event()  # set when sleep was granted: what follows is winding up
        self.ended = asyncio.Event()  # set when its end is stored
        self.result: RunResult | None = None  # set when it is over
        self.settled = asyncio.Event()  # set when it is over and its end is stored
        self._interruptible: set[asyncio.Task[Any]] = set()  # what a stop cancels at once
        self._task: asyncio.Task[None] | None = None
        self._clock = clock
        self._end: Timer | None = None  # of the grace of a stop
        self._ends_at = 0.0  # on the monotonic clock, while there is one

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.agent_id}, turn {self.turns}, {self.result or 'going on'}>"

    def stop(self, grace_seconds: float) -> None:
        """Ask the run to end at its next await; cancel it after the grace."""
        self.stopping = True
        for task in self._interruptible - {asyncio.current_task()}:
            self._interruptible.discard(task)
            task.cancel()
        ends_at = self._clock.monotonic() + grace_seconds
        if self._end is None or ends_at < self._ends_at:
            if self._end is not None:
                self._end.cancel()
            self._ends_at, self._end = ends_at, self._clock.call_at(ends_at, self.cancel)

    def drain(self) -> None:
        """Ask the run to end at its next turn boundary."""
        self.draining = True

    def fall_asleep(self) -> None:
        """Its sleep is granted and stored, and with it its end; whatever carries it out may wind up."""
        self.slept.set()
        self.ended.set()

    def settle(self) -> None:
        """Nothing more comes of the run; whoever waits for that goes on."""
        self.ended.set()
        self.settled.set()

    def cancel(self) -> None:
        """End the run now."""
        if self._task is not None and self.result is None:
            self._task.cancel()

    def at_turn_boundary(self) -> None:
        """Raise RunStopped or RunDrained if the run was asked to end."""
        if self.stopping:
            raise RunStopped("stopped")
        if self.draining:
            raise RunDrained("interrupted: the service was shutting down")

    async def interruptible(self, awaitable: Awaitable[Answer]) -> Answer:
        """Await something that a stop may cut short: it is cancelled, and RunStopped raised.

        The stop cancels the task that awaits, as the limit of an asyncio.timeout does, so that no further
        task is needed.
        """
        if self.stopping:
            asyncio.ensure_future(awaitable).cancel()
            raise RunStopped("stopped")
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be interrupted")
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

    async def carry_out(self, harness: "Harness", ask: "Ask", max_seconds: float) -> None:
        """Let the harness work, and turn whatever happens into a result."""
        self._task = asyncio.current_task()
        structlog.contextvars.bind_contextvars(agent=str(self.agent_id), run=str(self.id))
        result = RunResult(Outcome.INTERRUPTED, "interrupted: the service was shutting down", counts=False)
        try:
            result = await self._result_of(harness, ask, max_seconds)
        except asyncio.CancelledError:
            if self.stopping:
                result = RunResult(Outcome.STOPPED, "stopped")
        finally:
            self.result = RunResult(Outcome.SLEPT) if self.slept.is_set() else result

    async def _result_of(self, harness: "Harness", ask: "Ask", max_seconds: float) -> RunResult:
        try:
            async with asyncio.timeout(max_seconds) as limit:
                self.at_turn_boundary()
                return await harness.execute(self, ask)
        except RunStopped as error:
            return RunResult(Outcome.STOPPED, str(error))
        except RunDrained as error:
            return RunResult(Outcome.INTERRUPTED, str(error), counts=False)
        except RunBudgetReached as error:
            return RunResult(Outcome.BUDGET, str(error))
        except AgentGone:
            return RunResult(Outcome.STOPPED, "deleted")
        except RunError as error:
            return RunResult(Outcome.FAILED, str(error))
        except (DatabaseUnavailable, LeadershipLost) as error:
            log.warning("a run failed for want of the database", reason=str(error))
            return RunResult(Outcome.FAILED, str(error))
        except (
            Exception
        ) as error:  # the outermost edge of a run: whatever it is, the agent's schedule goes on
            if isinstance(error, TimeoutError) and limit.expired():
                return RunResult(Outcome.TIMED_OUT, f"timed out after {max_seconds:g} s")
            log.exception("a run failed by a defect")
            return RunResult(Outcome.FAILED, "internal error; the service's log has it under this run's id")


class Ask(Protocol):
    """Asks an agent's supervisor a question; `registry.Registry.ask` says what comes back."""

    async def __call__(self, agent_id: UUID, request: Request) -> Any: ...


class Harness(Protocol):
    """What executes a run."""

    async def execute(self, run: ActiveRun, ask: Ask) -> RunResult:
        """Work until the agent sleeps or has nothing more to do; raises RunError when that cannot be."""
        ...


async def all_settled(runs: Collection[ActiveRun], seconds: float) -> None:
    """Return when the ends of all are stored, or after so long."""
    if not runs:
        return
    waiting = [asyncio.ensure_future(run.settled.wait()) for run in runs]
    _, late = await asyncio.wait(waiting, timeout=seconds)
    for waiter in late:
        waiter.cancel()
