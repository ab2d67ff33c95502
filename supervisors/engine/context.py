"""What the supervisors of one process share: the store, the timers, the run slots, and the other nodes.

Its functions say what an agent may do here and what is left to another node.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from uuid import UUID

from storage.agent_facts import AgentState, StateUpdate
from supervisors.clock import Clock
from supervisors.engine.messages import Signal
from supervisors.engine.run import ActiveRun
from supervisors.engine.run_slots import RunSlots
from supervisors.engine.timer_queue import TimerQueue
from supervisors.policy.attendance import View
from supervisors.policy.decisions import Policy
from supervisors.policy.explanations import StartLimits
from supervisors.ports import Nodes, StateStore

RECOVERY_SECONDS = 1.0
FULL_SECONDS = 0.5  # until an organization with all its runs in other nodes tries again
HAND_OVER = timedelta(seconds=60)  # two scans of any length fit into it
LOOK_AGAIN = timedelta(seconds=1)  # at a start that waits until this node is confirmed

Ring = Callable[[int, Signal, UUID], None]


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
