"""A limit of concurrent calls, shared fairly among organizations, or among other owners of calls."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)


class QueueFull(Exception):
    """Too many callers of one owner wait for a slot."""


@dataclass(slots=True, eq=False)
class FairSlots(Generic[Owner]):
    """Slots that owners of calls, such as organizations, take or wait for, each in its own queue.

    The next slot goes to the owner that has the fewest, and among equals in turn. An owner can take a slot
    only while it has fewer than are free. So one alone gets half of all slots, and there is always one left
    for the next owner. At most `max_waiting` callers of an owner wait. While `goes_last` is true for an
    owner, it waits behind all for which it is not.
    """

    free: int
    max_waiting: int | None = None
    goes_last: Callable[[Owner], bool] = lambda _: False
    _taken: Counter[Owner] = field(default_factory=Counter)
    _queues: dict[Owner, dict[asyncio.Future[None], None]] = field(default_factory=dict)

    async def take(self, owner: Owner) -> None:
        """Wait for a slot, which the caller must release. Raise QueueFull."""
        if self._may_take(owner):  # then its queue is empty
            self._count(owner)
            return
        if len(self._queues.get(owner, ())) == self.max_waiting:
            raise QueueFull
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, {})[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot was granted in the same moment
                self.release(owner)
            else:
                self._leave(owner, turn)
            raise

    def release(self, owner: Owner) -> None:
        """Give a slot back, and grant it to the next in line."""
        self.free += 1
        decrement(self._taken, owner)
        while candidates := [waiting for waiting in self._queues if self._may_take(waiting)]:
            next_id = min(candidates, key=self._rank)
            turn = next(iter(self._queues[next_id]))
            self._leave(next_id, turn)
            if not turn.cancelled():  # a cancelled waiter may not have left its queue yet
                self._count(next_id)
                turn.set_result(None)
                if next_id in self._queues:  # behind the others, whose turn comes first
                    self._queues[next_id] = self._queues.pop(next_id)

    def _rank(self, owner: Owner) -> tuple[bool, int]:
        return self.goes_last(owner), self._taken[owner]

    def _may_take(self, owner: Owner) -> bool:
        return self._taken[owner] < self.free

    def _count(self, owner: Owner) -> None:
        self.free -= 1
        self._taken[owner] += 1

    def _leave(self, owner: Owner, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(owner, {})
        queue.pop(turn, None)
        if not queue:
            self._queues.pop(owner, None)


def decrement(counter: Counter[Owner], owner: Owner, amount: int = 1) -> None:
    """Subtract from the count of an owner, and drop the owner if nothing is left."""
    counter[owner] -= amount
    if not counter[owner]:
        del counter[owner]
