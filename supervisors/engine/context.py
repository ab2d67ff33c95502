"""The state that the registry and its supervisors share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from uuid import UUID

from supervisors.arrival_room import ArrivalRoom
from supervisors.clock import Clock
from supervisors.engine.clock_history import ClockHistory
from supervisors.engine.run import ActiveRun
from supervisors.engine.run_slots import RunSlots
from supervisors.engine.timer_queue import TimerQueue
from supervisors.policy.admission import is_short_wait, wait_estimate
from supervisors.policy.decisions import Policy
from supervisors.policy.explanations import StartLimits
from supervisors.ports import StateStore

RECOVERY_SECONDS = 1.0


@dataclass(slots=True)
class SupervisorContext:
    """The state that all supervisors of this process share. Only the registry changes its fields."""

    store: StateStore
    clock: Clock
    clock_history: ClockHistory
    policy: Policy
    timer_queue: TimerQueue
    slots: RunSlots
    arrivals: ArrivalRoom
    launch: Callable[[ActiveRun, UUID], Awaitable[None]]  # begins to execute a run; takes its organization
    count_quarantine: Callable[[], None]  # called whenever one begins
    stop_grace_seconds: float
    random: Random
    runs: dict[UUID, ActiveRun]  # by agent; a run stays until its end is stored and its job is over
    recovery_seconds: float = RECOVERY_SECONDS  # agents whose runs died restart within this time
    may_start: bool = True  # false while draining, or while another instance may lead

    def limits_of(self, organization_id: UUID) -> StartLimits:
        """Return what a start of an agent of this organization may wait for, apart from leave to start."""
        is_at_limit = self.slots.is_at_limit(organization_id)
        return StartLimits(
            self.slots.limit,
            self.slots.organization_limit if is_at_limit else None,
            is_busy=self.slots.is_throttled,
        )

    def wait_briefly(self, agent_id: UUID, organization_id: UUID) -> bool:
        """Let a due agent wait for a slot if its turn comes soon; return whether it waits.

        Nothing of this wait is stored: the agent stays due, so the due scan finds it after a crash. It also
        finds an agent whose wait gets long after all; then that is stored.
        """
        slots = self.slots
        may_wait = slots.waits_briefly(agent_id) if slots.is_waiting(agent_id) else self._turn_comes_soon()
        if may_wait:
            self.timer_queue.cancel(agent_id)
            slots.wait(agent_id, organization_id, is_brief=True)
        return may_wait

    def _turn_comes_soon(self) -> bool:
        return is_short_wait(wait_estimate(self.slots.waiting, self.slots.starts_per_second))

    def wait_estimate(self, agent_id: UUID) -> float | None:
        """Return in how many seconds the agent gets a slot if it waits for one; None if nothing starts."""
        return wait_estimate(self.slots.ahead_of(agent_id), self.slots.starts_per_second)
