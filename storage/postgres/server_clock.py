"""The clock of the server, compared with this machine's: all nodes shall agree about the time.

An answer tells how far the server's clock is ahead, but for the time that the statement took. All answers of
the last minute together tell it better. While the present correction is possible it is kept, since a new one
at each answer would look like a clock that is set.
"""

from collections import deque
from datetime import timedelta
from typing import NamedTuple

MEMORY_SECONDS = 60.0
TOLERANCE = timedelta(milliseconds=5)


class Lead(NamedTuple):
    """How far the server's clock is ahead: at least and at most, as read at a monotonic time."""

    at: float
    low: timedelta
    high: timedelta


class ServerClock:
    """Estimates how far the server's clock is ahead of this machine's."""

    def __init__(self) -> None:
        self._correction = timedelta()
        self._leads: deque[Lead] = deque()

    @property
    def correction(self) -> float:
        """Return how many seconds to add to this machine's time; 0 while the clocks may agree."""
        return self._correction.total_seconds()

    def observe(self, lead: Lead) -> None:
        """Note what one statement has read."""
        self._leads.append(lead)
        while self._leads[0].at < lead.at - MEMORY_SECONDS:
            self._leads.popleft()
        low, high = self._bounds()
        if low > high:  # one of the clocks was set
            self._leads = deque([lead])
            low, high = self._bounds()
        if not low - TOLERANCE <= self._correction <= high + TOLERANCE:
            is_right = low - TOLERANCE <= timedelta() <= high + TOLERANCE
            self._correction = timedelta() if is_right else (low + high) / 2

    def _bounds(self) -> tuple[timedelta, timedelta]:
        return max(lead.low for lead in self._leads), min(lead.high for lead in self._leads)
