"""A clock that stands still until a test moves it."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from tests.storage.factories import NOW


class HeldTimer:
    """A timer that the clock fires when it is moved to the timer's time."""

    def __init__(self, moment: float, call: Callable[[], None]) -> None:
        self._moment = moment
        self.call = call
        self.cancelled = False

    def when(self) -> float:
        return self._moment

    def cancel(self) -> None:
        self.cancelled = True


class HeldClock:
    """A wall clock and a monotonic clock that move together; `step` sets the wall clock alone."""

    def __init__(self, now: datetime = NOW) -> None:
        self._now = now
        self._monotonic = 1000.0
        self._timers: list[HeldTimer] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def call_at(self, moment: float, call: Callable[[], None]) -> HeldTimer:
        timer = HeldTimer(moment, call)
        self._timers.append(timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self.call_at(self._monotonic + seconds, lambda: None if woken.done() else woken.set_result(None))
        await woken

    def timers(self) -> list[float]:
        """Return the times of all timers, earliest first."""
        return sorted(timer.when() for timer in self._timers if not timer.cancelled)

    def advance(self, seconds: float) -> None:
        """Let time pass; timers fire in order, each at its own time."""
        target = self._monotonic + seconds
        while (timer := self._next()) is not None and timer.when() <= target:
            self._move_to(timer.when())
            self._timers.remove(timer)
            timer.call()
        self._move_to(target)

    def step(self, seconds: float) -> None:
        """Set the wall clock; no time passes."""
        self._now += timedelta(seconds=seconds)

    def forget_timers(self) -> None:
        """Drop all timers, as the death of a process does."""
        self._timers.clear()

    def _next(self) -> HeldTimer | None:
        self._timers = [timer for timer in self._timers if not timer.cancelled]
        return min(self._timers, key=HeldTimer.when, default=None)

    def _move_to(self, moment: float) -> None:
        passed = max(0.0, moment - self._monotonic)
        self._monotonic += passed
        self._now += timedelta(seconds=passed)
