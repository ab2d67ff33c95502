"""The loop lag probe: it measures how late the event loop is, which delays everything in this process."""

from supervisors.clock import Clock
from supervisors.engine.registry import Registry

PROBE_SECONDS = 0.05


class LoopLagProbe:
    """Sleeps a moment and measures how late it wakes. Repeated without a pause, it misses no lag."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def run_once(self) -> None:
        """Measure once and pass the lag in seconds to the registry."""
        expected = self._clock.monotonic() + PROBE_SECONDS
        await self._clock.sleep(PROBE_SECONDS)
        self._registry.note_loop_lag(max(0.0, self._clock.monotonic() - expected))
