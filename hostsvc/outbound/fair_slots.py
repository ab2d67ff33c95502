"""Room for so many calls at once, shared out fairly among those who make them."""

import asyncio
from collections import Counter
from uuid import UUID


class FairSlots:
    """Slots that organizations take, or wait for in lines of their own; who has the fewest comes next.

    Nobody takes more than are left free for the others. So whatever one asks for, there is a slot for the
    next at once, and half of them all for one that is alone.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._taken: Counter[UUID] = Counter()
        self._lines: dict[UUID, dict[asyncio.Future[None], None]] = {}

    def __repr__(self) -> str:
        waiting = sum(len(line) for line in self._lines.values())
        return f"<FairSlots {self._taken.total()} taken, {self._free} free, {waiting} waiting>"

    async def take(self, organization_id: UUID) -> None:
        """Return with a slot, which is then to be released."""
        if self._may_take(organization_id):  # then nobody waits in its line
            self._count(organization_id)
            return
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(organization_id, {})[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came in the same moment
                self.release(organization_id)
            else:
                self._leave(organization_id, turn)
            raise

    def release(self, organization_id: UUID) -> None:
        """Give a slot back, to whoever is next."""
        self._free += 1
        self._taken[organization_id] -= 1
        if not self._taken[organization_id]:
            del self._taken[organization_id]
        while entitled := [each for each in self._lines if self._may_take(each)]:
            following = min(entitled, key=self._taken.__getitem__)
            turn = next(iter(self._lines[following]))
            self._leave(following, turn)
            if not turn.cancelled():  # by one that has not come to leave the line itself
                self._count(following)
                turn.set_result(None)

    def _may_take(self, organization_id: UUID) -> bool:
        return self._taken[organization_id] < self._free

    def _count(self, organization_id: UUID) -> None:
        self._free -= 1
        self._taken[organization_id] += 1

    def _leave(self, organization_id: UUID, turn: asyncio.Future[None]) -> None:
        line = self._lines.get(organization_id, {})
        line.pop(turn, None)
        if not line:
            self._lines.pop(organization_id, None)
