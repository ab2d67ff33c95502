"""The slots for concurrent runs, with a waiting queue that is fair over organizations."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from supervisors.counts import decrement
from supervisors.policy.admission import SHORT_WAIT_SECONDS

STARTING_SECONDS = 1.0  # how long a run counts as starting, unless it ends earlier


class Place(NamedTuple):
    """The place of an agent that waits: its organization, since when, and its number in that queue.

    `is_brief`: the wait is so short that nothing of it is stored, unless it gets long after all.
    """

    organization_id: UUID
    since: float  # on the monotonic clock
    number: int
    is_brief: bool


class Backlog(NamedTuple):
    """The agents that wait for runs that start: how many they are, and how long the first has waited."""

    agents: int = 0
    seconds: float = 0.0


class RunSlots:
    """A limited number of slots. An agent takes one, or waits in its organization's queue for one.

    When a slot becomes free it is reserved for the next agent, and `on_slot` is called synchronously with
    that agent's id; the agent then takes the slot or gives it up. An organization has at most
    `organization_limit` slots, 0 for no limit; while it has as many, the other organizations pass it.

    At most `starting_limit` of the runs may be *starting*: in their first second. This limit moves with the
    load of the service (see `set_pace`). It counts runs that end within a second all the time, and
    those that wait for slow models hardly at all, because these are no burden. An organization without a slot
    passes this limit while a slot is free.
    """

    def __init__(
        self,
        limit: int,
        on_slot: Callable[[UUID], None],
        monotonic: Callable[[], float],
        organization_limit: int = 0,
    ) -> None:
        self.limit = limit
        self.starting_limit = limit
        self.organization_limit = organization_limit
        self._on_slot = on_slot
        self._monotonic = monotonic
        self.taken = 0
        self.started = 0  # runs since the start of the process
        self.starts_per_second = 0.0
        self._reserved: dict[UUID, UUID] = {}  # agent -> its organization
        self._in_use: Counter[UUID] = Counter()  # slots taken or reserved, by organization
        self._starting: OrderedDict[UUID, float] = OrderedDict()  # agent -> when it got its slot
        self._queues: OrderedDict[UUID, OrderedDict[UUID, None]] = OrderedDict()  # organization -> its agents
        self._held_queues: dict[UUID, OrderedDict[UUID, None]] = {}  # those of organizations at their limit
        self._places: dict[UUID, Place] = {}  # of the agents that wait, the longest wait first

    @property
    def waiting(self) -> int:
        return len(self._places)

    @property
    def starting(self) -> int:
        """Return how many runs are in their first second, or about to begin."""
        latest = self._monotonic() - STARTING_SECONDS
        while self._starting and next(iter(self._starting.values())) <= latest:
            self._starting.popitem(last=False)
        return len(self._starting)

    @property
    def is_throttled(self) -> bool:
        """Return whether starts wait because too many runs are starting, not because all slots are taken."""
        return self.taken + len(self._reserved) < self.limit and self.starting >= self.starting_limit

    @property
    def backlog(self) -> Backlog:
        """Return the agents that wait for runs that start, which is when at least half as many do as may.

        Those of an organization at its own limit wait for that.
        """
        if self.starting < min(self.limit, self.starting_limit) / 2:
            return Backlog()
        queues = [queue for owner, queue in self._queues.items() if not self.is_at_limit(owner)]
        if not queues:
            return Backlog()
        since = min(self._places[next(iter(queue))].since for queue in queues)
        return Backlog(sum(map(len, queues)), self._monotonic() - since)

    def is_waiting(self, agent_id: UUID) -> bool:
        """Return whether the agent waits for a slot and was not offered one."""
        return agent_id in self._places

    def waiting_seconds(self, agent_id: UUID) -> float | None:
        """Return how long the agent waits; None if it does not."""
        place = self._places.get(agent_id)
        return None if place is None else self._monotonic() - place.since

    def waits_briefly(self, agent_id: UUID) -> bool:
        """Return whether nothing of the agent's wait is stored, and it is still short."""
        place = self._places.get(agent_id)
        return place is not None and place.is_brief and self._monotonic() < place.since + SHORT_WAIT_SECONDS

    def ahead_of(self, agent_id: UUID) -> int:
        """Return about how many agents get a slot before this one, which waits or would begin to wait now."""
        place = self._places.get(agent_id)
        if place is None:
            return len(self._places)
        own = self._queue_of(place.organization_id)
        first = next(iter(own))
        in_own_queue = place.number - self._places[first].number
        return in_own_queue + sum(
            min(len(queue), in_own_queue + 1)
            for queues in (self._queues, self._held_queues)
            for queue in queues.values()
            if queue is not own
        )

    def set_pace(self, starting_limit: int, starts_per_second: float) -> None:
        """Set how many runs may be starting, and the rate from which waits are estimated.

        A lower limit ends no run; a higher one is offered at once.
        """
        self.starting_limit, self.starts_per_second = starting_limit, starts_per_second
        self._reserve_free_slots()

    def in_use(self, organization_id: UUID) -> int:
        """Return how many slots the organization has taken or reserved."""
        return self._in_use.get(organization_id, 0)

    def is_at_limit(self, organization_id: UUID) -> bool:
        """Return whether the organization has as many slots as it may have."""
        return 0 < self.organization_limit <= self.in_use(organization_id)

    def has_room(self, organization_id: UUID) -> bool:
        """Return whether a slot is neither taken nor reserved, and the organization may have it."""
        return self._has_free_slot() and not self.is_at_limit(organization_id)

    def take(self, agent_id: UUID, organization_id: UUID) -> bool:
        """Take the slot reserved for this agent, or a free one; return whether there was one."""
        if agent_id in self._reserved:
            del self._reserved[agent_id]
        elif self._has_room_after_others(organization_id) or self._is_first_of(organization_id):
            self._in_use[organization_id] += 1
            self._note_start(agent_id)
        else:
            return False
        self._dequeue(agent_id)
        self.taken += 1
        self.started += 1
        return True

    def wait(self, agent_id: UUID, organization_id: UUID, *, is_brief: bool = False) -> None:
        """Wait at the end of the organization's queue; an agent that already waits keeps its place."""
        place = self._places.get(agent_id)
        if place is not None:
            self._places[agent_id] = place._replace(is_brief=is_brief)
        elif agent_id not in self._reserved:
            queue = self._queues_with(organization_id).setdefault(organization_id, OrderedDict())
            number = self._places[next(reversed(queue))].number + 1 if queue else 0
            self._places[agent_id] = Place(organization_id, self._monotonic(), number, is_brief)
            queue[agent_id] = None
            self._reserve_free_slots()

    def leave(self, agent_id: UUID) -> None:
        """Leave the queue, or give up the reserved slot."""
        self._dequeue(agent_id)
        organization_id = self._reserved.pop(agent_id, None)
        if organization_id is not None:
            self._give_back(agent_id, organization_id)
            self._reserve_free_slots()

    def release(self, agent_id: UUID, organization_id: UUID) -> None:
        """Give back the slot that the agent of the organization has taken."""
        self.taken -= 1
        self._give_back(agent_id, organization_id)
        self._reserve_free_slots()

    def _has_room_after_others(self, organization_id: UUID) -> bool:
        """Offer slots that time has freed to the agents that wait, then return the same as `has_room`."""
        self._reserve_free_slots()
        return self.has_room(organization_id)

    def _is_first_of(self, organization_id: UUID) -> bool:
        """Return whether the organization has no slot and one is free, whatever the limit of starts is."""
        return not self.in_use(organization_id) and self.taken + len(self._reserved) < self.limit

    def _has_free_slot(self) -> bool:
        return self.taken + len(self._reserved) < self.limit and self.starting < self.starting_limit

    def _note_start(self, agent_id: UUID) -> None:
        self._starting[agent_id] = self._monotonic()
        self._starting.move_to_end(agent_id)

    def _give_back(self, agent_id: UUID, organization_id: UUID) -> None:
        self._starting.pop(agent_id, None)
        decrement(self._in_use, organization_id)
        held = self._held_queues.pop(organization_id, None)
        if held is not None:
            self._queues[organization_id] = held

    def _reserve_free_slots(self) -> None:
        while self._queues and self._has_free_slot():
            organization_id, queue = self._queues.popitem(last=False)
            if self.is_at_limit(organization_id):
                self._held_queues[organization_id] = queue
                continue
            agent_id, _ = queue.popitem(last=False)
            del self._places[agent_id]
            if queue:
                self._queues[organization_id] = queue  # at the end: the other organizations go first
            self._reserved[agent_id] = organization_id
            self._in_use[organization_id] += 1
            self._note_start(agent_id)
            self._on_slot(agent_id)

    def _dequeue(self, agent_id: UUID) -> None:
        place = self._places.pop(agent_id, None)
        if place is None:
            return
        queues = self._queues_with(place.organization_id)
        queue = queues[place.organization_id]
        del queue[agent_id]
        if not queue:
            del queues[place.organization_id]

    def _queues_with(self, organization_id: UUID) -> dict[UUID, OrderedDict[UUID, None]]:
        return self._held_queues if organization_id in self._held_queues else self._queues

    def _queue_of(self, organization_id: UUID) -> OrderedDict[UUID, None]:
        return self._queues_with(organization_id)[organization_id]
