"""The slots for concurrent runs, with a waiting queue that is fair over organizations."""

from collections import OrderedDict
from collections.abc import Callable
from uuid import UUID


class RunSlots:
    """A limited number of slots. An agent takes one, or waits in its organization's queue for one.

    When a slot becomes free it is reserved for the next agent, and `on_slot` is called synchronously with
    that agent's id; the agent then takes the slot or gives it up.
    """

    def __init__(self, limit: int, on_slot: Callable[[UUID], None]) -> None:
        self.limit = limit
        self._on_slot = on_slot
        self.taken = 0
        self._reserved: set[UUID] = set()
        self._queues: OrderedDict[UUID, OrderedDict[UUID, None]] = OrderedDict()  # organization -> its agents
        self._organization_of: dict[UUID, UUID] = {}

    @property
    def waiting(self) -> int:
        return len(self._organization_of)

    def has_room(self) -> bool:
        """Return whether a slot is neither taken nor reserved."""
        return self.taken + len(self._reserved) < self.limit

    def take(self, agent_id: UUID) -> bool:
        """Take the slot reserved for this agent, or a free one; return whether there was one."""
        if agent_id in self._reserved:
            self._reserved.remove(agent_id)
        elif not self.has_room():
            return False
        self._dequeue(agent_id)
        self.taken += 1
        return True

    def wait(self, agent_id: UUID, organization_id: UUID) -> None:
        """Wait at the end of the organization's queue; an agent that already waits keeps its place."""
        if agent_id not in self._organization_of and agent_id not in self._reserved:
            self._organization_of[agent_id] = organization_id
            self._queues.setdefault(organization_id, OrderedDict())[agent_id] = None
            self._reserve_free_slots()

    def leave(self, agent_id: UUID) -> None:
        """Leave the queue, or give up the reserved slot."""
        self._dequeue(agent_id)
        if agent_id in self._reserved:
            self._reserved.remove(agent_id)
            self._reserve_free_slots()

    def release(self) -> None:
        """Give back a taken slot."""
        self.taken -= 1
        self._reserve_free_slots()

    def _reserve_free_slots(self) -> None:
        while self._queues and self.has_room():
            organization_id, queue = self._queues.popitem(last=False)
            agent_id, _ = queue.popitem(last=False)
            del self._organization_of[agent_id]
            if queue:
                self._queues[organization_id] = queue  # at the end: the other organizations go first
            self._reserved.add(agent_id)
            self._on_slot(agent_id)

    def _dequeue(self, agent_id: UUID) -> None:
        organization_id = self._organization_of.pop(agent_id, None)
        if organization_id is None:
            return
        queue = self._queues[organization_id]
        del queue[agent_id]
        if not queue:
            del self._queues[organization_id]
