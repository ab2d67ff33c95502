"""Notes how late the event loop is: what everything else in this process has to wait for."""

from supervisors.clock import Clock
from supervisors.engine.inspection import Statistics

PROBE_SECONDS = 0.05


class LoopLagProbe:
    """Waits a moment, and sees how much later it is; without pauses it misses nothing that lasts longer."""

    def __init__(self, statistics: Statistics, clock: Clock) -> None:
        self._statistics = statistics
        self._clock = clock

    async def run_once(self) -> None:
        """Measure once."""
        expected = self._clock.monotonic() + PROBE_SECONDS
        await self._clock.sleep(PROBE_SECONDS)
        self._statistics.loop_lag_seconds.append(max(0.0, self._clock.monotonic() - expected))
