"""Group commit: items that arrive while a write is in flight go together into the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic
from typing import Generic, TypeVar

from storage.errors import ConstraintError, DatabaseBusy, DatabaseUnavailable, NoAnswer, RowLocked
from storage.histogram import Histogram
from storage.postgres.asker import ASKER

MAX_GROUP_ITEMS = 500

Item = TypeVar("Item")
Result = TypeVar("Result")
Group = list[tuple[Item, asyncio.Future[Result]]]


@dataclass(slots=True, eq=False)
class GroupCommit(Generic[Item, Result]):
    """Passes concurrent items to one call of `flush`, and answers each caller after it.

    One flush is in flight at a time and the order is kept; a lone item does not wait. `flush` returns its
    results in the order of its items. If several items fail by a constraint or a lock, it is called again
    with each item alone. If it gets no answer in time, the items that wait for it fail, too: each would wait
    as long.
    """

    name: str
    flush: Callable[[list[Item]], Awaitable[list[Result]]]
    max_items: int = MAX_GROUP_ITEMS
    max_pending: int = 10_000
    durations: Histogram | None = None  # of flushes that succeeded, if they are measured
    _pending: deque[tuple[Item, asyncio.Future[Result]]] = field(default_factory=deque)
    _worker: asyncio.Task[None] | None = None
    _closed: bool = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "flushing" if self._worker else "idle"
        return f"<GroupCommit {self.name}: {state}, {len(self._pending)} pending>"

    async def add(self, item: Item) -> Result:
        """Add the item to the next flush and return its result, or raise the error of the flush.

        The item is flushed even if its caller is cancelled. Raise DatabaseUnavailable if the group is
        closed, DatabaseBusy if too many items are pending.
        """
        if self._closed:
            raise DatabaseUnavailable(f"{self.name}: closed")
        if len(self._pending) >= self.max_pending:
            raise DatabaseBusy(f"{self.name}: too many requests are waiting for the database")
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, answer))
        if self._worker is None:
            # The task starts one iteration of the loop later, so callers of the same iteration share a flush.
            self._worker = asyncio.create_task(self._work(), name=f"group commit: {self.name}")
        return await answer

    async def close(self) -> None:
        """Flush the pending items, and refuse new ones from now on."""
        self._closed = True
        if self._worker is not None:
            await asyncio.shield(self._worker)

    async def _work(self) -> None:
        ASKER.set(None)  # it works for several
        group: Group[Item, Result] = []
        alone: deque[Group[Item, Result]] = deque()  # items of a group that failed, each to be flushed again
        try:
            while alone or self._pending:
                count = min(self.max_items, len(self._pending))
                group = alone.popleft() if alone else [self._pending.popleft() for _ in range(count)]
                began = monotonic()
                try:
                    results = await self.flush([item for item, _ in group])
                    answered = list(zip((answer for _, answer in group), results, strict=True))
                except Exception as error:  # the outermost edge of the flush: the callers get the error
                    if isinstance(error, ConstraintError | RowLocked) and len(group) > 1:
                        alone.extend([pair] for pair in group)
                        continue
                    _fail(group, error)
                    if isinstance(error, NoAnswer):
                        self._refuse_pending()
                else:
                    if self.durations is not None:
                        self.durations.add(monotonic() - began)
                    for answer, result in answered:
                        if not answer.done():
                            answer.set_result(result)
        finally:
            # There is no await between the last check of `_pending` and this line, so an item that is added
            # later starts the next worker.
            self._worker = None
            for _, answer in chain(group, *alone):
                answer.cancel()  # only a cancelled worker leaves one without a result

    def _refuse_pending(self) -> None:
        refused = list(self._pending)
        self._pending.clear()
        _fail(refused, NoAnswer(f"{self.name}: the database did not answer the requests before this one"))


def _fail(group: Group[Item, Result], error: Exception) -> None:
    for _, answer in group:
        if not answer.done():
            answer.set_exception(error)
