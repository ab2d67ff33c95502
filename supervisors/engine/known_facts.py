"""The facts of an agent as its supervisor's own last update has left them, so that the next look is spared.

They are a hint: others may have changed the agent since. So they count only where a guard of the next update
shows that they still hold, or where nothing is to be done.
"""

from dataclasses import dataclass

from storage.agent_facts import ActivationPeriod, AgentFacts, StateUpdate
from storage.fast_replace import replace
from storage.model import Outcome
from supervisors.engine.clock_history import ClockHistory

MAX_QUEUED = 5_000  # starts that wait for a run slot; the facts of each take about 2 KB


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """The facts after an update, and how many steps of the wall clock had been observed by then."""

    facts: AgentFacts
    clock_steps: int

    def is_valid(self, history: ClockHistory) -> bool:
        """Return whether nobody has set the wall clock since."""
        history.observe()
        return history.steps == self.clock_steps


def known_after(
    seen: AgentFacts, update: StateUpdate, clock_steps: int, queue_length: int
) -> KnownFacts | None:
    """Return what is known after an update that started a run, queued a start or granted sleep, else None.

    After a start, the facts leave out what is pending: they are for a sleep that is granted only if nothing
    is. With a reminder ahead it would be refused, and a queued start could have another reason once the
    reminder is due. Nothing is known where spending is capped: the spending changes without a message. Nor is
    it of a start that waits behind MAX_QUEUED others: a long queue would take much memory.
    """
    is_sleep = update.end is not None and update.end.outcome is Outcome.SLEPT
    is_queued = update.after.queued_at is not None and queue_length < MAX_QUEUED
    has_reminder = any(group.period is ActivationPeriod.AHEAD for group in seen.pending)
    is_start = update.start is not None
    if seen.budgets or not (is_sleep or ((is_queued or is_start) and not has_reminder)):
        return None
    state = replace(update.after, version=update.before.version + 1)
    wake_reason = state.last_wake_reason if is_start else ""
    pending = () if is_start else seen.pending
    # As stored: the times by the present wall clock are computed from these again.
    facts = replace(seen, state=state, wake_reason=wake_reason, pending=pending, held_between=None)
    return KnownFacts(facts, clock_steps)
