"""An event loop with virtual time and a random order, which are the same for the same seed.

Time stands still while any task is ready, then jumps to the next timer. Any of the ready tasks may run next:
asyncio promises no order between tasks that wait for the outside, and code that relies on one fails here.

A task belongs to the process that created it. A process can be frozen: then none of its tasks gets any
further, but for those that wait for the server, where their statements go on.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from random import Random
from typing import Any, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

STEPS_AT_ONE_MOMENT = 20_000
TURNS_TO_END = 100
NO_TIME_SECONDS = 0.1  # less than this counts as one moment
TASKS_BETWEEN_SWEEPS = 200


class NothingAhead(Exception):
    """All tasks wait, and no timer is set."""


class EndlessMoment(Exception):
    """A loop runs without time passing."""


class OwnedTask(asyncio.Task[Any]):
    """A task of a process; None owns those of the world. `is_at_server`: a statement of it is under way."""

    owner: object = None
    is_at_server = 0


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
        self._tasks: list[OwnedTask] = []
        self._acting: object = None
        self._handle: asyncio.Handle | None = None  # what runs at the moment
        self._frozen: dict[object, list[asyncio.Handle]] = {}  # by owner, what it does when it thaws

    def time(self) -> float:
        return self._moment

    def create_task(
        self,
        coro: Generator[Any, None, Result] | Coroutine[Any, Any, Result],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> "OwnedTask":
        task = OwnedTask(coro, loop=self, name=None if name is None else str(name), context=context)
        task.owner = self.owner
        if len(self._tasks) > TASKS_BETWEEN_SWEEPS:
            self._tasks = self.unfinished_tasks()
        self._tasks.append(task)
        return task

    @property
    def owner(self) -> object:
        """Return the process that acts at the moment."""
        if self._acting is not None:
            return self._acting
        task = asyncio.current_task(self)
        if task is None and self._handle is not None and self._handle._args:
            task = self._handle._args[0]  # this is a callback of a task that has ended
        return task.owner if isinstance(task, OwnedTask) else None

    @contextmanager
    def acting(self, owner: object) -> Iterator[None]:
        """Let a process act: what it creates in the block is its own."""
        before, self._acting = self._acting, owner
        try:
            yield
        finally:
            self._acting = before

    def freeze(self, owner: object) -> None:
        """Let no task of this process get any further."""
        self._frozen.setdefault(owner, [])

    def thaw(self, owner: object) -> None:
        """Let the tasks of this process go on."""
        self._ready.extend(self._frozen.pop(owner, ()))

    def unfinished_tasks(self) -> list[OwnedTask]:
        """Return the unfinished tasks in the order of their creation, which asyncio does not keep."""
        return [task for task in self._tasks if not task.done()]

    def run_in_executor(
        self, executor: object, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        """Call the function at once: there are no threads."""
        done: asyncio.Future[Result] = self.create_future()
        done.set_result(func(*args))
        return done

    def _run_once(self) -> None:
        if not self._ready:
            self._let_time_pass()
        self._steps += 1
        if self._steps > STEPS_AT_ONE_MOMENT:
            self._steps = 0  # a caller that runs the loop again, to end the tasks, has as many steps again
            raise EndlessMoment(f"{STEPS_AT_ONE_MOMENT} steps without time passing")
        handle = self._draw()
        if self._frozen and (held := self._frozen.get(_owner_of(handle))) is not None:
            held.append(handle)
        elif not handle._cancelled:
            self._handle = handle
            handle._run()

    def _let_time_pass(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)
        if not scheduled:
            raise NothingAhead
        if scheduled[0].when() > self._moment:
            self.before_time_passes()
            if self._ready:
                return
            self._moment = scheduled[0].when()
            if self._moment - self._counted_from >= NO_TIME_SECONDS:
                self._counted_from, self._steps = self._moment, 0
        while scheduled and scheduled[0].when() <= self._moment:
            self._ready.append(heapq.heappop(scheduled))

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


def _owner_of(handle: asyncio.Handle) -> object:
    """Return the process whose task would run next, unless that waits for the server."""
    task = getattr(_callback_of(handle), "__self__", None)
    return task.owner if isinstance(task, OwnedTask) and not task.is_at_server else None


def _source(handle: asyncio.Handle) -> object:
    """Return what made the handle ready: the future whose callback it is, or the called object."""
    arguments = handle._args
    if arguments and isinstance(arguments[0], asyncio.Future):
        return arguments[0]
    callback = _callback_of(handle)
    return getattr(callback, "__self__", callback)


def _callback_of(handle: asyncio.Handle) -> object:
    return handle._callback  # type: ignore[attr-defined]  # typeshed leaves it out


def end_leftovers(loop: VirtualLoop) -> None:
    """End the tasks that are left, but do not wait for those that refuse to end."""
    loop.before_time_passes = lambda: None
    with suppress(EndlessMoment):
        loop.run_until_complete(_end_all(loop))
    loop.close()
    for task in loop.unfinished_tasks():
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # typeshed leaves it out
        with suppress(RuntimeError):  # it ignores even this
            task.get_coro().close()


async def _end_all(loop: VirtualLoop) -> None:
    for _ in range(TURNS_TO_END):
        leftover = [task for task in loop.unfinished_tasks() if task is not asyncio.current_task()]
        if not leftover:
            return
        for task in leftover:
            task.cancel()
        await asyncio.sleep(0)
