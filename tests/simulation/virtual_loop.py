"""An event loop with virtual time and a random order, which are the same for the same seed.

Time stands still while any task is ready, then jumps to the next timer. Any of the ready tasks may run next:
asyncio promises no order between tasks that wait for the outside, and code that relies on one fails here.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from random import Random
from typing import Any, TypeVar

Result = TypeVar("Result")

STEPS_AT_ONE_MOMENT = 20_000
NO_TIME_SECONDS = 0.1  # less than this counts as one moment
TASKS_BETWEEN_SWEEPS = 200


class NothingAhead(Exception):
    """All tasks wait, and no timer is set."""


class EndlessMoment(Exception):
    """A loop runs without time passing."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. It calls `before_time_passes` before each jump in time, when no task is ready."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.before_time_passes: Callable[[], None] = lambda: None
        self._random = random
        self._moment = 1000.0
        self._steps = 0
        self._counted_from = self._moment
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self._moment

    def create_task(
        self,
        coro: Generator[Any, None, Result] | Coroutine[Any, Any, Result],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Result]:
        task: asyncio.Task[Result] = asyncio.Task(
            coro, loop=self, name=None if name is None else str(name), context=context
        )
        if len(self._tasks) > TASKS_BETWEEN_SWEEPS:
            self._tasks = self.unfinished_tasks()
        self._tasks.append(task)
        return task

    def unfinished_tasks(self) -> list[asyncio.Task[Any]]:
        """Return the unfinished tasks in the order of their creation, which asyncio does not keep."""
        return [task for task in self._tasks if not task.done()]

    def _run_once(self) -> None:
        if not self._ready:
            self._let_time_pass()
        self._steps += 1
        if self._steps > STEPS_AT_ONE_MOMENT:
            self._steps = 0  # a caller that runs the loop again, to end the tasks, has as many steps again
            raise EndlessMoment(f"{STEPS_AT_ONE_MOMENT} steps without time passing")
        handle = self._draw()
        if not handle._cancelled:
            handle._run()

    def _let_time_pass(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        if not scheduled:
            raise NothingAhead
        if scheduled[0].when() > self._moment:
            self.before_time_passes()
            self._moment = scheduled[0].when()
            if self._moment - self._counted_from >= NO_TIME_SECONDS:
                self._counted_from, self._steps = self._moment, 0
        while scheduled and scheduled[0].when() <= self._moment:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(handle)

    def _draw(self) -> asyncio.Handle:
        """Draw any ready handle, but keep those of one future or one object in order."""
        ready = self._ready
        if len(ready) == 1:
            return ready.popleft()
        source = _source(ready[int(self._random.random() * len(ready))])
        for place, handle in enumerate(ready):
            if _source(handle) is source:
                del ready[place]
                return handle
        raise AssertionError("the drawn handle is among the ready ones")

    def _write_to_self(self) -> None:
        """Do nothing, as no other thread wakes this loop."""

    def _process_events(self, event_list: Any) -> None:
        """Do nothing, as no events come from outside."""


def _source(handle: asyncio.Handle) -> object:
    """Return what made the handle ready: the future whose callback it is, or the called object."""
    arguments = handle._args
    if arguments and isinstance(arguments[0], asyncio.Future):
        return arguments[0]
    callback = handle._callback  # type: ignore[attr-defined]
    return getattr(callback, "__self__", callback)
