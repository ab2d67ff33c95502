"""The simulation's clocks: a wall clock that can be set, and a monotonic one, which only goes on.

The loop's time stands still within a moment and jumps to the next. Whoever of the service looks at a clock
sees it go on meanwhile, by a microsecond every few looks, so that nothing may count on two looks being one.
Timers are set to the loop's whole milliseconds all the same, so that events still meet.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from supervisors.clock import Timer
from tests.storage.factories import NOW

TICK_SECONDS = 0.000_001


class Wall:
    """The clocks of the machine: they go on with the loop and with looks, and one of them can be set.

    To look at them from outside the service takes no time. `looks_per_tick`: None if none does.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, looks_per_tick: int | None) -> None:
        self._loop = loop
        self._looks_per_tick = looks_per_tick
        self._signals = 0
        self._latest = loop.time()
        self._began = NOW - timedelta(seconds=loop.time())

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return max(self._loop.time(), self._latest)

    def look(self) -> None:
        """Somebody is about to read one of the clocks."""
        self._signals += 1
        if self._looks_per_tick and self._signals % self._looks_per_tick == 0:
            self._latest = self.monotonic() + TICK_SECONDS

    def step(self, seconds: float) -> None:
        """Somebody sets the clock; no time passes."""
        self._began += timedelta(seconds=seconds)


class ProcessClock:
    """Time, as one process gets it: its timers die with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wall: Wall) -> None:
        self._loop = loop
        self._wall = wall
        self.is_stopped = False

    def now(self) -> datetime:
        self._wall.look()
        return self._wall.now()

    def monotonic(self) -> float:
        self._wall.look()
        return self._wall.monotonic()

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        return self._loop.call_at(round(moment, 3), self._ring, call)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _ring(self, call: Callable[[], None]) -> None:
        if not self.is_stopped:
            call()


def beginning_of_moment(moment: datetime) -> datetime:
    """Without the ticks of those who have looked since."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
