"""The times of a hold on the monotonic clock: a hold keeps its length when the wall clock is set."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from math import inf

from storage.agent_facts import AgentFacts
from supervisors.clock import Clock
from supervisors.engine.clock_history import ClockHistory
from supervisors.engine.timer_queue import CLOCK_DRIFT_SECONDS
from supervisors.policy.debounce import Hold, hold_length, max_hold_seconds
from supervisors.policy.decisions import Policy, hold_of

MAX_EARLIER = 16


@dataclass(frozen=True, slots=True)
class Activation:
    """A stored `activated_at`, and when that was on the monotonic clock."""

    at: datetime
    monotonic_at: float


@dataclass(frozen=True, slots=True)
class HoldTimes:
    """The first and the last activation of a hold, and some that were the last one before."""

    first: Activation
    last: Activation
    earlier: tuple[Activation, ...]  # oldest first, at most MAX_EARLIER
    read_at: float  # on the monotonic clock
    window_seconds: int

    def ends_at(self, window_seconds: int, cap_seconds: int) -> float:
        """Return the end of the hold on the monotonic clock."""
        lasted = timedelta(seconds=self.last.monotonic_at - self.first.monotonic_at)
        length = hold_length(lasted, window_seconds, cap_seconds)
        return self.first.monotonic_at + length.total_seconds()

    def on_wall_clock(self, history: ClockHistory) -> tuple[datetime, datetime] | None:
        """Return the two times by the present wall clock; None if the stored ones are right."""
        shown = tuple(history.shown_at(each.monotonic_at) for each in (self.first, self.last))
        drift = timedelta(seconds=CLOCK_DRIFT_SECONDS)
        if abs(shown[0] - self.first.at) <= drift and abs(shown[1] - self.last.at) <= drift:
            return None
        return shown[0], shown[1]


class HoldClock:
    """The hold of one agent on the monotonic clock, as its supervisor learns of it."""

    __slots__ = ("_clock", "_history", "_notified", "_notified_count", "_policy", "_times")

    def __init__(self, clock: Clock, history: ClockHistory, policy: Policy) -> None:
        self._clock = clock
        self._history = history
        self._policy = policy
        self._times: HoldTimes | None = None  # of the hold that was read last
        # When the first and the last message about notifications came since then.
        self._notified: tuple[float, ...] = ()
        self._notified_count = 0

    def note_notification(self) -> None:
        """Keep when a message about a notification came: its stored time may not tell after a step."""
        self._history.observe()
        self._notified = (*self._notified[:1], self._clock.monotonic())
        self._notified_count += 1

    def remember(self, facts: AgentFacts) -> AgentFacts:
        """Place the hold of these facts, which were just read; return them by the present wall clock."""
        self._times = self._find(facts)
        self._notified, self._notified_count = (), 0
        return self._with_times(facts, self._times)

    def on_wall_clock(self, facts: AgentFacts) -> AgentFacts:
        """Return facts that somebody else has read by the present wall clock."""
        self._history.observe()
        return self._with_times(facts, self._find(facts))

    def ends_at(self, hold: Hold) -> float:
        """Return when the hold ends, on the monotonic clock."""
        if self._times is None:
            return self._clock.monotonic()
        return self._times.ends_at(hold.window_seconds, self._policy.debounce_cap_seconds)

    def is_needed(self) -> bool:
        """Return whether the hold may go on, and its stored times alone do not tell until when."""
        times = self._times
        if times is None:
            return False
        longest = max_hold_seconds(times.window_seconds, self._policy.debounce_cap_seconds)
        if times.last.monotonic_at + longest <= self._clock.monotonic():
            return False
        return not all(self._is_told_by_stored_time(each) for each in _activations(times))

    def _is_told_by_stored_time(self, activation: Activation) -> bool:
        found = self._history.monotonic_of(activation.at)
        return found is not None and abs(found - activation.monotonic_at) <= CLOCK_DRIFT_SECONDS

    def _with_times(self, facts: AgentFacts, times: HoldTimes | None) -> AgentFacts:
        shown = times.on_wall_clock(self._history) if times else None
        return facts if shown is None else replace(facts, held_between=shown)

    def _find(self, facts: AgentFacts) -> HoldTimes | None:
        hold = hold_of(facts, self._policy)
        if hold is None:
            return None
        first, last = (self._notified[0], self._notified[-1]) if self._notified else (-inf, -inf)
        if self._notified_count < hold.count:
            first = -inf  # its first message came before those, maybe to a supervisor that was dropped
        return _place_hold(hold, self._times, self._history, self._clock, (first, last))


def _place_hold(
    hold: Hold, before: HoldTimes | None, history: ClockHistory, clock: Clock, notified: tuple[float, float]
) -> HoldTimes:
    """Place the stored times of a hold on the monotonic clock.

    `before` was found when the agent's facts were read last. An activation stays where it was found.
    `notified`: when the messages about the first and the last one came; -inf for one that is not known.
    """
    known = {each.at: each for each in _activations(before)}
    last = known.get(hold.last_at) or _place(hold.last_at, before, history, clock, notified[-1])
    known[last.at] = last
    first = known.get(hold.first_at) or _place(hold.first_at, before, history, clock, notified[0])
    shift = min(0.0, last.monotonic_at - first.monotonic_at)
    first = Activation(first.at, first.monotonic_at + shift)
    earlier = tuple(each for each in _activations(before) if first.at < each.at < last.at)
    return HoldTimes(first, last, earlier[-MAX_EARLIER:], clock.monotonic(), hold.window_seconds)


def _activations(times: HoldTimes | None) -> Iterator[Activation]:
    return iter(()) if times is None else chain(times.earlier, (times.last, times.first))


def _place(
    at: datetime, before: HoldTimes | None, history: ClockHistory, clock: Clock, notified_at: float
) -> Activation:
    """Place the first or the last activation of a hold.

    Each activation of an agent is stored later than the one before, so that a time may be one that the wall
    clock did not show: after a step back, only the message about the notification tells when it came.
    """
    if before is not None and at < before.last.at:  # the messages after it, or before it, were cleared
        latest = before.last.monotonic_at
        found = history.monotonic_of(at, before.first.monotonic_at, latest)
        return Activation(at, latest if found is None else found)
    earliest = before.read_at if before is not None else -inf
    found = history.monotonic_of(at, earliest, notified_at)
    if found is None:  # or it was read before the message about it came
        found = history.monotonic_of(at, earliest)
    if found is None or history.was_set_between(found, notified_at):
        found = notified_at if notified_at >= earliest and notified_at > -inf else clock.monotonic()
    return Activation(at, found)
