"""Time, as everything of ours gets it: handed in, so that a test can hand in its own."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """Something that will be called at its moment unless it is cancelled.

    It does not say when that is: on uvloop a timer whose moment has come does not know any more.
    """

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall clock for what is stored, monotonic clock for what is waited for."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever go forward, whatever is done to the wall clock."""
        ...

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        """Call it at that moment of the monotonic clock, or a millisecond early: who is called looks."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much of the monotonic clock's time pass."""
        ...


class SystemClock:
    """The machine's clocks, and the running loop's timers."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        # Not the loop's time: uvloop counts whole milliseconds, and a hold reckoned in them can end early.
        return time.monotonic()

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(moment - time.monotonic(), call)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def comes_within(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Whether the event comes before so much time has passed; waits until one of the two has."""
    waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return event.is_set()
