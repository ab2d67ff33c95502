"""Measures how long the loop is held up, by whatever does not give way."""

from collections import deque

from supervisors.clock import Clock
from supervisors.snapshot import Lateness

PROBE_SECONDS = 0.05
SAMPLES = 1200  # a minute's


class LoopLag:
    """How late a timer fires; one is always set, so what holds the loop up for longer than that is seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds: deque[float] = deque(maxlen=SAMPLES)

    async def run_once(self) -> None:
        """Set one timer, and note by how much it fires too late."""
        due_at = self._clock.monotonic() + PROBE_SECONDS
        await self._clock.sleep(PROBE_SECONDS)
        self._seconds.append(max(0.0, self._clock.monotonic() - due_at))

    def lateness(self) -> Lateness:
        """Over the last minute."""
        return Lateness.of(self._seconds)
