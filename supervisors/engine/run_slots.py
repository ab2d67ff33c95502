"""How many runs there may be at once, and who is next: a queue that is fair over organizations."""

from collections import OrderedDict
from collections.abc import Callable
from uuid import UUID


class RunSlots:
    """Slots for runs. An agent takes one, or waits in its organization's line until one is kept for it.

    `on_slot` is called, synchronously, with the agent for which a slot has been kept; the agent then takes
    it or leaves it to the next.
    """

    def __init__(self, limit: int, on_slot: Callable[[UUID], None]) -> None:
        self.limit = limit
        self._on_slot = on_slot
        self._taken = 0
        self._kept: set[UUID] = set()
        self._lines: OrderedDict[UUID, OrderedDict[UUID, None]] = OrderedDict()  # organization -> its agents
        self._organization_of: dict[UUID, UUID] = {}

    def __repr__(self) -> str:
        return f"<RunSlots {self._taken}/{self.limit} taken, {self.waiting} waiting>"

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def waiting(self) -> int:
        return len(self._organization_of)

    def has_room(self) -> bool:
        """Whether a slot is neither taken nor kept for somebody."""
        return self._taken + len(self._kept) < self.limit

    def take(self, agent_id: UUID) -> bool:
        """Take the slot kept for this agent, or a free one; False when there is none."""
        if agent_id in self._kept:
            self._kept.remove(agent_id)
        elif not self.has_room():
            return False
        self._forget(agent_id)
        self._taken += 1
        return True

    def wait(self, agent_id: UUID, organization_id: UUID) -> None:
        """Stand in line, at its end; an agent that already stands there keeps its place."""
        if agent_id not in self._organization_of and agent_id not in self._kept:
            self._organization_of[agent_id] = organization_id
            self._lines.setdefault(organization_id, OrderedDict())[agent_id] = None
            self._offer()

    def leave(self, agent_id: UUID) -> None:
        """Leave the line, or give the kept slot to the next."""
        self._forget(agent_id)
        if agent_id in self._kept:
            self._kept.remove(agent_id)
            self._offer()

    def release(self) -> None:
        """Give a taken slot back."""
        self._taken -= 1
        self._offer()

    def _offer(self) -> None:
        while self._lines and self.has_room():
            organization_id, line = self._lines.popitem(last=False)
            agent_id, _ = line.popitem(last=False)
            del self._organization_of[agent_id]
            if line:
                self._lines[organization_id] = line  # to the end: the other organizations go first
            self._kept.add(agent_id)
            self._on_slot(agent_id)

    def _forget(self, agent_id: UUID) -> None:
        organization_id = self._organization_of.pop(agent_id, None)
        if organization_id is None:
            return
        line = self._lines[organization_id]
        del line[agent_id]
        if not line:
            del self._lines[organization_id]
