"""The loop lag probe: it measures how late the event loop is, which delays everything in this process."""

from supervisors.clock import Clock
from supervisors.engine.inspection import Statistics

SAMPLE_SECONDS = 0.05


class LoopLagProbe:
    """Sleeps a moment and measures how late it wakes. Repeated without a pause, it misses no lag."""

    def __init__(self, statistics: Statistics, clock: Clock) -> None:
        self._statistics = statistics
        self._clock = clock

    async def run_once(self) -> None:
        """Take one sample."""
        expected = self._clock.monotonic() + SAMPLE_SECONDS
        await self._clock.sleep(SAMPLE_SECONDS)
        self._statistics.loop_lag_seconds.append(max(0.0, self._clock.monotonic() - expected))
