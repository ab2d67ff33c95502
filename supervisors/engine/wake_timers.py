"""The timer of a resting agent, which fires at its next wake."""

from datetime import datetime
from math import inf
from uuid import UUID

from supervisors.engine.hold_clock import HoldClock
from supervisors.engine.timer_queue import TimerQueue
from supervisors.policy.decisions import Decision


def set_timer(
    timer_queue: TimerQueue, agent_id: UUID, decision: Decision, hold_clock: HoldClock, now: datetime
) -> None:
    """Schedule the next wake of the agent, or cancel its timer if no wake lies ahead."""
    next_at = decision.next_at
    if next_at is None or decision.due_wake(now):
        timer_queue.cancel(agent_id)
    elif decision.hold and decision.wake:
        ends_at = hold_clock.ends_at(decision.hold)
        fixed_at = ends_at if decision.wake.at == decision.hold.due_at else None
        # If something else is due first, the hold still ends in time when the wall clock is set back.
        # A wake after its end waits for more than the hold: for the next start of a quarantined agent.
        latest = ends_at if decision.wake.at <= decision.hold.due_at else inf
        timer_queue.schedule(agent_id, decision.wake.at, fixed_at, latest)
    else:
        timer_queue.schedule(agent_id, next_at)
