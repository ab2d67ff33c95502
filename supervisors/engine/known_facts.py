"""The facts of an agent as its supervisor's own last update has left them, so that the next look is spared.

They are a hint: others may have changed the agent since. So they count only where a guard of the next update
shows that they still hold, or where nothing is to be done.
"""

from dataclasses import dataclass

from storage.agent_facts import ActivationPeriod, AgentFacts, StateUpdate
from storage.fast_replace import replace
from storage.model import Outcome
from supervisors.engine.clock_history import ClockHistory


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """The facts after an update, and how many steps of the wall clock had been observed by then."""

    facts: AgentFacts
    clock_steps: int

    def is_valid(self, history: ClockHistory) -> bool:
        """Return whether nobody has set the wall clock since."""
        history.observe()
        return history.steps == self.clock_steps


def known_after(seen: AgentFacts, update: StateUpdate, clock_steps: int) -> KnownFacts | None:
    """Return what is known after the stored update; None unless it has started a run or granted sleep.

    After a start, the facts leave out what is pending: they are for a sleep that is granted only if nothing
    is. With a reminder ahead it would be refused. Nothing is known where spending is capped: the spending
    changes without a message.
    """
    is_start = update.start is not None
    is_sleep = update.end is not None and update.end.outcome is Outcome.SLEPT
    has_reminder = any(group.period is ActivationPeriod.AHEAD for group in seen.pending)
    if seen.budgets or not (is_sleep or (is_start and not has_reminder)):
        return None
    if is_sleep:
        return KnownFacts(replace(seen, state=update.after, wake_reason=""), clock_steps)
    state = replace(update.after, version=update.before.version + 1)
    started = replace(seen, state=state, pending=(), wake_reason=state.last_wake_reason)
    return KnownFacts(started, clock_steps)
