"""The simulation's clocks: a wall clock that can be set, and the loop's, which only goes on."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from supervisors.clock import Timer
from tests.storage.factories import NOW


class Wall:
    """The wall clock of the machine; it goes on with the loop and can be set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._began = NOW - timedelta(seconds=loop.time())

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self._loop.time())

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
        return self._wall.now()

    def monotonic(self) -> float:
        return self._loop.time()

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        return self._loop.call_at(moment, self._ring, call)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _ring(self, call: Callable[[], None]) -> None:
        if not self.is_stopped:
            call()
