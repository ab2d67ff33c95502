"""The slots for concurrent runs, with a waiting queue that is fair over organizations."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from uuid import UUID

from supervisors.fair_slots import decrement


class RunSlots:
    """A limited number of slots. An agent takes one, or waits in its organization's queue for one.

    When a slot becomes free it is reserved for the next agent, and `on_slot` is called synchronously with
    that agent's id; the agent then takes the slot or gives it up. Organizations take turns. One has at most
    `organization_limit` slots, 0 for no limit; while it has as many, the other organizations pass it.
    """

    def __init__(self, limit: int, on_slot: Callable[[UUID], None], organization_limit: int = 0) -> None:
        self.limit = limit
        self.organization_limit = organization_limit
        self._on_slot = on_slot
        self._free = limit
        self._reserved: dict[UUID, UUID] = {}  # agent -> its organization
        self._in_use: Counter[UUID] = Counter()  # slots taken or reserved, by organization
        self.admissions = 0  # how often an organization was admitted
        self._full: set[UUID] = set()  # organizations that have all their slots in other nodes
        self._waiting: dict[UUID, UUID] = {}  # agent -> its organization
        # Organization -> its agents, the longest wait first. The organization whose turn is next comes first.
        self._queues: OrderedDict[UUID, OrderedDict[UUID, None]] = OrderedDict()

    @property
    def taken(self) -> int:
        """Return how many slots are taken."""
        return self.limit - self.untaken

    @property
    def untaken(self) -> int:
        """Return how many slots are free or reserved."""
        return self._free + len(self._reserved)

    @property
    def free(self) -> int:
        """Return how many slots are neither taken nor reserved."""
        return self._free

    @property
    def waiting(self) -> int:
        """Return how many agents wait for a slot."""
        return len(self._waiting)

    def is_waiting(self, agent_id: UUID) -> bool:
        """Return whether the agent waits for a slot and was not offered one."""
        return agent_id in self._waiting

    def in_use(self, organization_id: UUID) -> int:
        """Return how many slots the organization has taken or reserved."""
        return self._in_use.get(organization_id, 0)

    def is_at_limit(self, organization_id: UUID) -> bool:
        """Return whether the organization has as many slots as it may have."""
        return organization_id in self._full or 0 < self.organization_limit <= self._in_use.get(
            organization_id, 0
        )

    def is_reserved(self, agent_id: UUID) -> bool:
        """Return whether the agent was offered a slot, and has neither taken it nor given it up."""
        return agent_id in self._reserved

    def has_room(self, organization_id: UUID) -> bool:
        """Return whether a slot is neither taken nor reserved, and the organization may have it."""
        return self._free > 0 and not self.is_at_limit(organization_id)

    def take(self, agent_id: UUID, organization_id: UUID) -> bool:
        """Take the slot reserved for this agent, or a free one; return whether there was one."""
        if self._reserved.pop(agent_id, None) is not None:
            return True
        if not self.has_room(organization_id):
            return False
        if agent_id in self._waiting:
            self._dequeue(agent_id)
        self._free -= 1
        self._in_use[organization_id] += 1
        return True

    def wait(self, agent_id: UUID, organization_id: UUID) -> None:
        """Wait at the end of the organization's queue; an agent that already waits keeps its place."""
        if agent_id in self._waiting or agent_id in self._reserved:
            return
        self._waiting[agent_id] = organization_id
        self._queues.setdefault(organization_id, OrderedDict())[agent_id] = None
        self._offer_free_slots()

    def leave(self, agent_id: UUID) -> None:
        """Leave the queue, or give up the reserved slot."""
        if agent_id in self._waiting:
            self._dequeue(agent_id)
        elif agent_id in self._reserved:
            organization_id = self._reserved.pop(agent_id)
            self.release(organization_id)

    def release(self, organization_id: UUID) -> None:
        """Give back a slot that an agent of the organization has taken."""
        self._free += 1
        if self.is_at_limit(organization_id) and organization_id in self._queues:
            self._queues.move_to_end(organization_id)  # the others go first: they waited for this slot, too
        decrement(self._in_use, organization_id)
        self._offer_free_slots()

    def pass_on(self, agent_id: UUID, organization_id: UUID) -> None:
        """Offer a slot that was just taken to another agent of the organization, which has waited longer."""
        if agent_id in self._reserved:
            self.release(organization_id)
            return
        if agent_id in self._waiting:
            self._dequeue(agent_id)
        self._reserved[agent_id] = organization_id
        self._on_slot(agent_id)

    def hold_back(self, organization_id: UUID) -> None:
        """Offer the organization no slots until `admit`: its runs in other nodes have all of them."""
        self._full.add(organization_id)

    def admit(self, organization_id: UUID) -> None:
        """Offer the organization slots again."""
        self.admissions += 1
        self._full.discard(organization_id)
        self._offer_free_slots()

    def _offer_free_slots(self) -> None:
        while self._free:
            # Organizations at their limit are passed. They are few, because they have all their slots.
            able = (each for each in self._queues if not self.is_at_limit(each))
            organization_id = next(able, None)
            if organization_id is None:
                return
            queue = self._queues.pop(organization_id)
            agent_id, _ = queue.popitem(last=False)
            del self._waiting[agent_id]
            if queue:
                self._queues[organization_id] = queue  # at the end: the other organizations go first
            self._free -= 1
            self._reserved[agent_id] = organization_id
            self._in_use[organization_id] += 1
            self._on_slot(agent_id)

    def _dequeue(self, agent_id: UUID) -> None:
        organization_id = self._waiting.pop(agent_id)
        queue = self._queues[organization_id]
        del queue[agent_id]
        if not queue:
            del self._queues[organization_id]
