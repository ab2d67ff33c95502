"""Group commit: items that arrive while a write is in flight go together into the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from storage.errors import ConstraintError, DatabaseBusy, DatabaseUnavailable, NoAnswer, RowLocked
from storage.postgres.leadership import Sleep

PAUSE_SECONDS = 0.004
CALLERS_AT_ONCE = 4  # in an iteration of the event loop
SPREAD_SECONDS = 0.05  # after which the other callers of a group go on all at once

Item = TypeVar("Item")
Result = TypeVar("Result")


class SharedPace:
    """The pace of the group commits that runs wait for. It leaves the processors to requests of clients.

    After a flush of several items there is a pause, which lets the next group grow: in a larger group each
    item costs less. A lone caller does not notice.

    The callers of a group go on a few at a time, so that requests are served in between: each run takes up to
    a millisecond until it waits again. The next flush begins after them, because what they add belongs in it.
    While `gives_way` is false, they go on all at once: then requests come in larger groups, too, and the
    service can do more. So do those that would wait for longer than `SPREAD_SECONDS`.
    """

    def __init__(self, sleep: Sleep) -> None:
        self.gives_way = True
        self._sleep = sleep
        self._answering = asyncio.Lock()

    async def pause(self) -> None:
        """Let the next group grow."""
        await self._sleep(PAUSE_SECONDS)

    async def wait_for_callers(self) -> None:
        """Wait until the callers of the flushes before have gone on."""
        async with self._answering:
            pass

    async def answer(self, answered: Sequence[tuple[asyncio.Future[Result], Result]]) -> None:
        """Answer the callers, in general a few in each iteration of the loop."""
        if not self.gives_way or len(answered) <= CALLERS_AT_ONCE:
            _answer(answered)
            return
        now = asyncio.get_running_loop().time
        latest, first = now() + SPREAD_SECONDS, 0
        async with self._answering:
            while self.gives_way and now() < latest and first < len(answered):
                _answer(answered[first : first + CALLERS_AT_ONCE])
                first += CALLERS_AT_ONCE
                await self._sleep(0)
            _answer(answered[first:])


class GroupCommit(Generic[Item, Result]):
    """Passes concurrent items to one call of `flush`, and answers each caller after it.

    One flush is in flight at a time and the order is kept; a lone item does not wait, unless callers of
    other groups of the same pace are about to go on. With a pace, a flush of several items is followed by a
    pause, unless the group was full. `flush` returns its results in the order of its items. If several items
    fail by a constraint or a lock, it is called again with each item alone. If it gets no answer in time, the
    items that wait for it fail, too: each would wait as long.
    """

    def __init__(
        self,
        name: str,
        flush: Callable[[list[Item]], Awaitable[list[Result]]],
        *,
        pace: SharedPace | None = None,
        max_items: int = 500,
        max_pending: int = 10_000,
    ) -> None:
        self._name = name
        self._flush = flush
        self._pace = pace
        self._max_items = max_items
        self._max_pending = max_pending
        self._pending: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "flushing" if self._worker else "idle"
        return f"<GroupCommit {self._name}: {state}, {len(self._pending)} pending>"

    async def add(self, item: Item) -> Result:
        """Add the item to the next flush and return its result, or raise the error of the flush.

        The item is flushed even if its caller is cancelled. Raise DatabaseUnavailable if the group is
        closed, DatabaseBusy if too many items are pending.
        """
        if self._closed:
            raise DatabaseUnavailable(f"{self._name}: closed")
        if len(self._pending) >= self._max_pending:
            raise DatabaseBusy(f"{self._name}: too many requests are waiting for the database")
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, answer))
        if self._worker is None:
            # The task starts one iteration of the loop later, so callers of the same iteration share a flush.
            self._worker = asyncio.create_task(self._work(), name=f"group commit: {self._name}")
        return await answer

    async def close(self) -> None:
        """Flush the pending items, and refuse new ones from now on."""
        self._closed = True
        if self._worker is not None:
            await asyncio.shield(self._worker)

    async def _work(self) -> None:
        group: list[tuple[Item, asyncio.Future[Result]]] = []
        try:
            while self._pending:
                if self._pace is not None:
                    await self._pace.wait_for_callers()
                group = [self._pending.popleft() for _ in range(min(self._max_items, len(self._pending)))]
                if not await self._flush_group(group):
                    self._refuse_pending()
                if self._pace is not None and 1 < len(group) < self._max_items:
                    await self._pace.pause()
        finally:
            # There is no await between the last check of `_pending` and this line, so an item that is added
            # later starts the next worker.
            self._worker = None
            for _, answer in group:
                answer.cancel()  # only a cancelled worker leaves one without a result

    def _refuse_pending(self) -> None:
        refused = list(self._pending)
        self._pending.clear()
        _fail(refused, NoAnswer(f"{self._name}: the database did not answer the requests before this one"))

    async def _flush_group(self, group: list[tuple[Item, asyncio.Future[Result]]]) -> bool:
        """Flush and answer the group. Return False if the database did not answer."""
        try:
            results = await self._flush([item for item, _ in group])
            answered = [(answer, result) for (_, answer), result in zip(group, results, strict=True)]
        except (ConstraintError, RowLocked) as error:
            if len(group) == 1:
                _fail(group, error)
            else:
                return all([await self._flush_group([pair]) for pair in group])
        except NoAnswer as error:
            _fail(group, error)
            return False
        except Exception as error:  # the outermost edge of the flush: the callers get the error
            _fail(group, error)
        else:
            if self._pace is None:
                _answer(answered)
            else:
                await self._pace.answer(answered)
        return True


def _answer(answered: Sequence[tuple[asyncio.Future[Result], Result]]) -> None:
    for answer, result in answered:
        if not answer.done():
            answer.set_result(result)


def _fail(group: list[tuple[Item, asyncio.Future[Result]]], error: Exception) -> None:
    for _, answer in group:
        if not answer.done():
            answer.set_exception(error)
