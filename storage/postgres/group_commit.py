"""Group commit: what arrives while one write is on its way goes into the next one together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from storage.errors import ConstraintError, DatabaseUnavailable, RowLocked

# What runs wait for pauses after a flush of several: of one that many share each item costs less, and the
# processors are free for what clients wait for. Whoever is alone does not notice.
RUNS_GATHER_SECONDS = 0.004

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """Concurrent items go into one call of `flush`; each caller is answered after it.

    One flush is in flight at a time and order is kept; who is alone does not wait. After a flush of several
    the next waits for `pause_seconds`. `flush` returns its results in the order of its items; it may expect
    to be called again with each item alone, when several failed by a constraint or a lock.
    """

    def __init__(
        self,
        name: str,
        flush: Callable[[list[Item]], Awaitable[list[Result]]],
        *,
        pause_seconds: float = 0.0,
        most: int = 500,
        pending_limit: int = 10_000,
    ) -> None:
        self._name = name
        self._flush = flush
        self._pause_seconds = pause_seconds
        self._most = most
        self._pending_limit = pending_limit
        self._pending: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "flushing" if self._worker else "idle"
        return f"<Batch {self._name}: {state}, {len(self._pending)} pending>"

    async def add(self, item: Item) -> Result:
        """The result of `item`, or what its flush raised. Once added it is flushed, caller gone or not."""
        if self._closed:
            raise DatabaseUnavailable(f"{self._name}: closed")
        if len(self._pending) >= self._pending_limit:
            raise DatabaseUnavailable(f"{self._name}: too many writes wait for the database")
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, answer))
        if self._worker is None:
            # A task starts one trip through the loop later, so callers of the same tick share a flush.
            self._worker = asyncio.create_task(self._work(), name=f"batch {self._name}")
        return await answer

    async def close(self) -> None:
        """Flush what is pending, then refuse."""
        self._closed = True
        if self._worker is not None:
            await asyncio.shield(self._worker)

    async def _work(self) -> None:
        taken: list[tuple[Item, asyncio.Future[Result]]] = []
        try:
            while self._pending:
                taken = [self._pending.popleft() for _ in range(min(self._most, len(self._pending)))]
                await self._flush_together(taken)
                if self._pause_seconds and len(taken) > 1:
                    await asyncio.sleep(self._pause_seconds)
        finally:
            # No await since the last look at `_pending`: an item added later starts the next worker.
            self._worker = None
            for _, answer in taken:
                answer.cancel()  # only a cancelled worker leaves one open

    async def _flush_together(self, taken: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._flush([item for item, _ in taken])
            answered = list(zip(taken, results, strict=True))
        except (ConstraintError, RowLocked) as error:
            if len(taken) == 1:
                _fail(taken, error)
                return
            for one in taken:
                await self._flush_together([one])
        except Exception as error:  # the outermost edge of the flush: the callers see it
            _fail(taken, error)
        else:
            for (_, answer), result in answered:
                if not answer.done():
                    answer.set_result(result)


def _fail(taken: list[tuple[Item, asyncio.Future[Result]]], error: Exception) -> None:
    for _, answer in taken:
        if not answer.done():
            answer.set_exception(error)
