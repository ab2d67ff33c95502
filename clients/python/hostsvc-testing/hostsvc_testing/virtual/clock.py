"""The simulation's clocks: a wall clock that can be set, and a monotonic clock, which only advances.

The loop's time stands still within a moment and jumps to the next. Reads by the service advance the clocks by
a microsecond every few reads, so that no code can rely on two reads being equal. Timers are rounded to whole
milliseconds of the loop, so that events still coincide.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from hostsvc_testing.virtual.virtual_loop import VirtualLoop
from supervisors.clock import Timer

TICK_SECONDS = 0.000_001


class Wall:
    """The clocks of the machine. They advance with the loop and with reads, and the wall clock can be set.

    Reads from outside the service take no time. `reads_per_tick` is None if none does.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, begins_at: datetime, reads_per_tick: int | None
    ) -> None:
        self._loop = loop
        self._reads_per_tick = reads_per_tick
        self._reads = 0
        self._latest = loop.time()
        self._began = begins_at - timedelta(seconds=loop.time())

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return max(self._loop.time(), self._latest)

    @property
    def reads_take_time(self) -> bool:
        """Return whether reads of the service advance the clocks."""
        return self._reads_per_tick is not None

    def count_read(self) -> None:
        """Advance the clocks if this read of the service is due to."""
        self._reads += 1
        if self._reads_per_tick and self._reads % self._reads_per_tick == 0:
            self._latest = self.monotonic() + TICK_SECONDS

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._began += timedelta(seconds=seconds)


class ProcessClock:
    """The clock of a process, which is its `owner`. Its timers die with it, and wait while it is frozen."""

    def __init__(self, loop: VirtualLoop, wall: Wall, owner: object) -> None:
        self._loop = loop
        self._wall = wall
        self._owner = owner
        self._missed: list[Callable[[], None]] | None = None  # while it is frozen
        self.is_stopped = False

    def freeze(self) -> None:
        self._missed = []

    def thaw(self) -> None:
        missed, self._missed = self._missed or [], None
        for call in missed:
            self._ring(call)

    def now(self) -> datetime:
        self._wall.count_read()
        return self._wall.now()

    def monotonic(self) -> float:
        self._wall.count_read()
        return self._wall.monotonic()

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        rings_at = round(moment, 3)
        if not self._wall.reads_take_time and rings_at <= self._loop.time() < moment:
            # It would ring for ever, as no time would pass.
            rings_at += 0.001
        return self._loop.call_at(rings_at, self._ring, call)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _ring(self, call: Callable[[], None]) -> None:
        if self._missed is not None:
            self._missed.append(call)
        elif not self.is_stopped:
            with self._loop.acting(self._owner):
                call()
