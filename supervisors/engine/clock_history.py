"""The wall clock as this process has seen it, so that stored times keep their place when the clock is set."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from math import inf

from supervisors.clock import Clock
from supervisors.engine.timer_queue import CLOCK_DRIFT_SECONDS

MAX_STRETCHES = 32


@dataclass(slots=True)
class Stretch:
    """A time in which nobody set the wall clock: first and last observed at these monotonic moments."""

    origin: datetime  # what the wall clock showed, or would have shown, at 0 on the monotonic clock
    since: float
    until: float


class ClockHistory:
    """The last steps of the wall clock, on the monotonic clock. Slow drift counts as many small steps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stretches: deque[Stretch] = deque(maxlen=MAX_STRETCHES)
        self.steps = -1  # that were observed; the first stretch begins without one
        self.observe()

    def observe(self) -> bool:
        """Compare the clocks; return whether the wall clock was set since the last call."""
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        origin = wall - timedelta(seconds=monotonic)
        if self._stretches and abs(origin - self._present.origin) <= timedelta(seconds=CLOCK_DRIFT_SECONDS):
            self._present.until = monotonic
            return False
        self._stretches.append(Stretch(origin, monotonic, monotonic))
        self.steps += 1
        return True

    def monotonic_of(self, moment: datetime, earliest: float = -inf, latest: float = inf) -> float | None:
        """Return when the wall clock last showed this moment, between `earliest` and `latest`.

        None stands for a moment that it did not show then.
        """
        wall = self._clock.now()
        # Read the monotonic clock last: a hold may be an instant too long, but never too short.
        present = self._clock.monotonic()
        at, upper = present - (wall - moment).total_seconds(), present
        for number in reversed(range(len(self._stretches))):
            stretch = self._stretches[number]
            lower = self._stretches[number - 1].until if number else -inf
            if stretch is not self._present:
                at = (moment - stretch.origin).total_seconds()
            begin, end = max(lower, earliest), min(upper, latest)
            if begin - CLOCK_DRIFT_SECONDS <= at <= end + CLOCK_DRIFT_SECONDS:
                return min(max(at, begin), end)
            upper = stretch.since
        return None

    def shown_at(self, monotonic: float) -> datetime:
        """Return what the wall clock would have shown then, had it been as it is now."""
        return self._present.origin + timedelta(seconds=monotonic)

    def was_set_between(self, earlier: float, later: float) -> bool:
        """Return whether the wall clock may have been set between these monotonic moments."""
        return any(
            before.until < later and after.since > earlier - CLOCK_DRIFT_SECONDS
            for before, after in pairwise(self._stretches)
        )

    @property
    def _present(self) -> Stretch:
        return self._stretches[-1]
