"""What the supervisors of one process share: the store, the timers, the run slots, and the other nodes.

The functions of SupervisorContext say what an agent may do here and what is left to another node.
"""

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import NamedTuple
from uuid import UUID

from storage.agent_facts import AgentState, StateUpdate
from supervisors.clock import Clock, Timer
from supervisors.engine.messages import Signal
from supervisors.engine.run import ActiveRun
from supervisors.fair_slots import decrement
from supervisors.policy.attendance import View
from supervisors.policy.decisions import Policy
from supervisors.policy.explanations import StartLimits
from supervisors.ports import Nodes, StateStore

MAX_WAIT_SECONDS = 60.0
CLOCK_DRIFT_SECONDS = 0.01
LATENESS_SAMPLES = 1000
MAX_STALE_ENTRIES = 1000  # replaced or cancelled entries that the heap may hold before it is rebuilt
HORIZON = timedelta(seconds=120)  # later deadlines are scheduled by the due scan when their time is near
RECOVERY_SECONDS = 1.0
FULL_SECONDS = 0.5  # until an organization with all its runs in other nodes tries again
HAND_OVER = timedelta(seconds=60)  # two scans of any length fit into it
LOOK_AGAIN = timedelta(seconds=1)  # at a start that waits until this node is confirmed

Ring = Callable[[int, Signal, UUID], None]


class TimerEntry(NamedTuple):
    """The time when one agent is due, on both clocks."""

    at: datetime
    monotonic_at: float


class TimerQueue:
    """At most one timer for each agent; `on_due` is called synchronously when it fires."""

    def __init__(self, clock: Clock, on_due: Callable[[UUID], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._entries: dict[UUID, TimerEntry] = {}
        self._heap: list[tuple[float, UUID]] = []  # monotonic time and agent; stale unless `_entries` agrees
        self._timer: Timer | None = None
        self._fires_at = 0.0  # on the monotonic clock, while there is a timer
        self._offset = self._wall_clock_offset()
        self.lateness_seconds: deque[float] = deque(maxlen=LATENESS_SAMPLES)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, agent_id: UUID) -> bool:
        return agent_id in self._entries

    def get(self, agent_id: UUID) -> datetime | None:
        """Return when the agent's timer fires; None if it has none."""
        entry = self._entries.get(agent_id)
        return entry.at if entry is not None else None

    def schedule(self, agent_id: UUID, at: datetime) -> None:
        """Set the agent's timer to `at`, in place of an earlier one.

        A time beyond the horizon is left to the due scan, which schedules it when it is near.
        """
        if at - self._clock.now() <= HORIZON:
            self._push(agent_id, TimerEntry(at, self._monotonic(at)))
            self._arm_timer()
        else:
            self.cancel(agent_id)

    def cancel(self, agent_id: UUID) -> None:
        """Remove the agent's timer."""
        self._entries.pop(agent_id, None)

    def close(self) -> None:
        """Remove all timers."""
        self._entries.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._adjust_to_wall_clock()
        fired_at = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= fired_at:
            monotonic_at, agent_id = heapq.heappop(self._heap)
            if not self._is_current(monotonic_at, agent_id):
                continue
            del self._entries[agent_id]
            self.lateness_seconds.append(fired_at - monotonic_at)
            self._on_due(agent_id)
        self._arm_timer()

    def _arm_timer(self) -> None:
        """Set the loop's timer for the head of the heap."""
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        if not self._heap:
            return
        fires_at = min(self._heap[0][0], self._clock.monotonic() + MAX_WAIT_SECONDS)
        if self._timer is not None:
            if self._fires_at <= fires_at:
                return
            self._timer.cancel()
        self._fires_at = fires_at
        self._timer = self._clock.call_at(fires_at, self._fire)

    def _adjust_to_wall_clock(self) -> None:
        """Compute the monotonic times again if the wall clock was set, or has drifted."""
        offset = self._wall_clock_offset()
        if abs(offset - self._offset) <= CLOCK_DRIFT_SECONDS:
            return
        self._offset = offset
        entries, self._entries, self._heap = self._entries, {}, []
        for agent_id, entry in entries.items():
            monotonic_at = min(entry.monotonic_at, self._monotonic(entry.at))
            self._push(agent_id, TimerEntry(entry.at, monotonic_at))

    def _push(self, agent_id: UUID, entry: TimerEntry) -> None:
        self._entries[agent_id] = entry
        heapq.heappush(self._heap, (entry.monotonic_at, agent_id))
        if len(self._heap) > MAX_STALE_ENTRIES + 2 * len(self._entries):
            self._heap = [(entry.monotonic_at, agent_id) for agent_id, entry in self._entries.items()]
            heapq.heapify(self._heap)

    def _is_current(self, monotonic_at: float, agent_id: UUID) -> bool:
        entry = self._entries.get(agent_id)
        return entry is not None and entry.monotonic_at == monotonic_at

    def _wall_clock_offset(self) -> float:
        """Return the wall clock minus the monotonic clock, in seconds."""
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _monotonic(self, at: datetime) -> float:
        remaining = at - self._clock.now()  # read before the monotonic clock, so that no timer is early
        return self._clock.monotonic() + remaining.total_seconds()


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


@dataclass(slots=True)
class SupervisorContext:
    """The state that all supervisors of this process share. Only the registry changes its fields."""

    store: StateStore
    clock: Clock
    policy: Policy
    timer_queue: TimerQueue
    slots: RunSlots
    launch: Callable[[ActiveRun], Awaitable[None]]  # begins to execute a run
    count_quarantine: Callable[[], None]  # called whenever one begins
    stop_grace_seconds: float
    random: Random
    nodes: Nodes
    ring: Ring  # tells the supervisor of an agent in another node
    view: View = field(init=False)  # of these nodes
    runs: dict[UUID, ActiveRun] = field(default_factory=dict)  # by agent, until they are over and stored
    recovery_seconds: float = RECOVERY_SECONDS  # agents whose runs died restart within this time
    is_draining: bool = False

    def __post_init__(self) -> None:
        self.view = View(self.nodes.node_id, self.nodes.is_living, self.nodes.is_leaving)

    @property
    def may_start(self) -> bool:
        """Return whether runs may start: not while draining, nor while others may take this node for dead.

        A node without the role `runs` starts none.
        """
        return not self.is_draining and self.nodes.is_confirmed and self.nodes.starts_runs

    def has_room(self, organization_id: UUID) -> bool:
        """Return whether an agent of this organization can start here at once."""
        return self.may_start and self.slots.has_room(organization_id)

    def limits_of(self, organization_id: UUID) -> StartLimits:
        """Return what a start of an agent of this organization may wait for, apart from leave to start."""
        is_at_limit = self.slots.is_at_limit(organization_id)
        return StartLimits(self.slots.limit, self.slots.organization_limit if is_at_limit else None)

    async def claim(self, start: StateUpdate, organization_id: UUID) -> bool:
        """Store a start. The limit of an organization holds over all nodes, so its runs are counted there.

        A node that knows no other counts, too: one may have joined just now. Raise RunLimitReached.
        """
        if not self.slots.organization_limit:
            return await self.store.update(start)
        return await self.store.start(start, organization_id, self.slots.organization_limit)

    def give_way(self, organization_id: UUID, next_ids: Sequence[UUID], admissions: int) -> None:
        """Give back the slot for a while, or let the organization's agent have it whose turn it is.

        Each of several that give way at once lets another one have it. `admissions`: those before the runs
        were counted. If there were more since, a run may have ended, so the next start need not wait.
        """
        slots, clock = self.slots, self.clock
        if slots.admissions == admissions:
            slots.hold_back(organization_id)
            clock.call_at(clock.monotonic() + FULL_SECONDS, partial(slots.admit, organization_id))
        next_id = next((each for each in next_ids if not slots.is_reserved(each)), None)
        if next_id is None:
            slots.release(organization_id)
        else:
            slots.pass_on(next_id, organization_id)

    def responsible_elsewhere(self, agent_id: UUID) -> int | None:
        """Return the other node that acts on an agent which no node attends; None if there is none."""
        node_id = self.nodes.responsible_for(agent_id)
        return None if node_id == self.nodes.node_id else node_id

    def look_again(self, agent_id: UUID, now: datetime) -> None:
        """Look again soon at an agent that is due and may not start here yet.

        If it never may, tell the node that starts it, if there is one.
        """
        if self.nodes.starts_runs and (not self.is_draining or len(self.nodes.living_ids) > 1):
            self.timer_queue.schedule(agent_id, now + LOOK_AGAIN)
            return
        self.timer_queue.cancel(agent_id)
        other = self.responsible_elsewhere(agent_id)
        if other is not None:
            self.ring(other, Signal.RELOAD, agent_id)

    def leaves_timer(self, state: AgentState, next_at: datetime) -> bool:
        """Return whether a sleeping agent's timer is left to the scans of the node responsible for it."""
        if state.node_id is not None or self.nodes.responsible_for(state.agent_id) == self.nodes.node_id:
            return False
        return next_at > self.clock.now() + HAND_OVER
