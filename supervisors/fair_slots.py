"""A limit of concurrent calls, shared fairly among organizations."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from typing import TypeVar
from uuid import UUID

Key = TypeVar("Key", bound=Hashable)


class QueueFull(Exception):
    """Too many callers of one organization wait for a slot."""


class FairSlots:
    """Slots that organizations take or wait for, each in its own queue.

    The next slot goes to the organization that has the fewest, and among equals in turn. An organization can
    take a slot only while it has fewer than are free. So one alone gets half of all slots, and there is
    always one left for the next organization. At most `max_waiting` callers of an organization wait. While
    `goes_last` is true for an organization, it waits behind all for which it is not.
    """

    def __init__(
        self,
        slots: int,
        max_waiting: int | None = None,
        goes_last: Callable[[UUID], bool] = lambda _: False,
    ) -> None:
        self._free = slots
        self._max_waiting = max_waiting
        self._goes_last = goes_last
        self._taken: Counter[UUID] = Counter()
        self._queues: dict[UUID, dict[asyncio.Future[None], None]] = {}

    async def take(self, organization_id: UUID) -> None:
        """Wait for a slot, which the caller must release. Raise QueueFull."""
        if self._may_take(organization_id):  # then its queue is empty
            self._count(organization_id)
            return
        if len(self._queues.get(organization_id, ())) == self._max_waiting:
            raise QueueFull
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(organization_id, {})[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot was granted in the same moment
                self.release(organization_id)
            else:
                self._leave(organization_id, turn)
            raise

    def release(self, organization_id: UUID) -> None:
        """Give a slot back, and grant it to the next in line."""
        self._free += 1
        decrement(self._taken, organization_id)
        while candidates := [waiting for waiting in self._queues if self._may_take(waiting)]:
            next_id = min(candidates, key=self._rank)
            turn = next(iter(self._queues[next_id]))
            self._leave(next_id, turn)
            if not turn.cancelled():  # a cancelled waiter may not have left its queue yet
                self._count(next_id)
                turn.set_result(None)
                if next_id in self._queues:  # behind the others, whose turn comes first
                    self._queues[next_id] = self._queues.pop(next_id)

    def _rank(self, organization_id: UUID) -> tuple[bool, int]:
        return self._goes_last(organization_id), self._taken[organization_id]

    def _may_take(self, organization_id: UUID) -> bool:
        return self._taken[organization_id] < self._free

    def _count(self, organization_id: UUID) -> None:
        self._free -= 1
        self._taken[organization_id] += 1

    def _leave(self, organization_id: UUID, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(organization_id, {})
        queue.pop(turn, None)
        if not queue:
            self._queues.pop(organization_id, None)


def decrement(counter: Counter[Key], key: Key, amount: int = 1) -> None:
    """Subtract from the count of a key, and drop the key if nothing is left."""
    counter[key] -= amount
    if not counter[key]:
        del counter[key]
