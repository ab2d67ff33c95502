"""Removes directory trees in the background: in one thread of its own, in turns between organizations."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from uuid import UUID

import structlog

from hostsvc.process_harness.directory_trees import removal_steps

log = structlog.get_logger()

FILES_PER_TURN = 256
MAX_PENDING = 8  # trees of one organization

Owner = UUID | None  # an organization, or the service itself


class Removals:
    """Removes trees that were moved aside, so that nobody waits for it; `open_removals` creates it."""

    def __init__(self) -> None:
        self._pending: OrderedDict[Owner, deque[Iterator[None]]] = (
            OrderedDict()
        )  # whose turn is next comes first
        self._has_work = asyncio.Event()
        self._has_removed = asyncio.Condition()

    def add(self, tree: Path, owner: Owner = None) -> None:
        """Remove the tree some time from now, or after the next start of the service."""
        self._pending.setdefault(owner, deque()).append(removal_steps(tree))
        self._has_work.set()

    async def wait_for_room(self, owner: Owner) -> None:
        """Wait while many trees of this owner are pending: it may not leave them faster than they go."""
        async with self._has_removed:
            await self._has_removed.wait_for(lambda: len(self._pending.get(owner, ())) <= MAX_PENDING)

    async def run(self) -> None:
        """Remove a few files of each owner in turn, without end."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "removal") as thread:
            while True:
                self._has_work.clear()
                while self._pending:
                    owner, trees = next(iter(self._pending.items()))
                    if await loop.run_in_executor(thread, _take_turn, trees[0]):
                        await self._finish(owner)
                    else:
                        self._pending.move_to_end(owner)
                await self._has_work.wait()

    async def _finish(self, owner: Owner) -> None:
        self._pending.move_to_end(owner)
        self._pending[owner].popleft()
        if not self._pending[owner]:
            del self._pending[owner]
        async with self._has_removed:
            self._has_removed.notify_all()


@asynccontextmanager
async def open_removals() -> AsyncIterator[Removals]:
    """Yield the removals; those that are pending when the block ends are left in their place."""
    removals = Removals()
    task = asyncio.create_task(removals.run(), name="removal of what runs left")
    try:
        yield removals
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _take_turn(steps: Iterator[None]) -> bool:
    """Remove the next files of a tree. Return whether it is done."""
    try:
        return sum(1 for _ in islice(steps, FILES_PER_TURN)) < FILES_PER_TURN
    except OSError as error:
        log.warning("a directory that a run left cannot be removed", reason=str(error))
        return True
