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
    is. With a reminder ahead it would be refused. Nothing is known where spending is capped: the spending
    changes without a message.
    """
    is_sleep = update.end is not None and update.end.outcome is Outcome.SLEPT
    if seen.budgets:
        return None
    if is_sleep:
        return KnownFacts(replace(seen, state=update.after, wake_reason=""), clock_steps)
    state = replace(update.after, version=update.before.version + 1)
    if update.after.queued_at is not None:
        return known_while_waiting(replace(seen, state=state), clock_steps, queue_length)
    if update.start is None or _has_reminder(seen):
        return None
    return KnownFacts(replace(seen, state=state, pending=(), wake_reason=state.last_wake_reason), clock_steps)


def known_while_waiting(facts: AgentFacts, clock_steps: int, queue_length: int) -> KnownFacts | None:
    """Return what is known of an agent that waits for a run slot.

    Nothing is known behind MAX_QUEUED others, as a long queue would take much memory; with a reminder ahead,
    because the start could have another reason once it is due; and where spending is capped.
    """
    if facts.budgets or queue_length >= MAX_QUEUED or _has_reminder(facts):
        return None
    # As stored: the times of a hold by the present wall clock are computed from the stored ones again.
    return KnownFacts(replace(facts, held_between=None), clock_steps)


def _has_reminder(facts: AgentFacts) -> bool:
    return any(group.period is ActivationPeriod.AHEAD for group in facts.pending)
