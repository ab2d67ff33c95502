"""The state that the registry and its supervisors share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from uuid import UUID

from supervisors.clock import Clock
from supervisors.engine.run import ActiveRun
from supervisors.engine.run_slots import RunSlots
from supervisors.engine.timer_queue import TimerQueue
from supervisors.policy.decisions import Policy
from supervisors.policy.explanations import StartLimits
from supervisors.ports import StateStore

RECOVERY_SECONDS = 1.0


@dataclass(slots=True)
class SupervisorContext:
    """The state that all supervisors of this process share. Only the registry changes its fields."""

    store: StateStore
    clock: Clock
    policy: Policy
    timer_queue: TimerQueue
    slots: RunSlots
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
        return StartLimits(self.slots.limit, self.slots.organization_limit if is_at_limit else None)
