"""Time: the clock is passed to everything that needs one, so that a test can pass its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Timer(Protocol):
    """A call at a moment, unless it is cancelled.

    It has no `when()`: on uvloop a timer that has fired cannot tell its moment.
    """

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The wall clock, for stored moments, and the monotonic clock, for waiting."""

    def now(self) -> datetime:
        """Return the wall clock's time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backward, even if the wall clock is set."""
        ...

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        """Call at that moment of the monotonic clock, or up to a millisecond early: the callee checks."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Wait this many seconds of the monotonic clock."""
        ...


class SystemClock:
    """The machine's clocks, and the running loop's timers."""

    monotonic = staticmethod(time.monotonic)  # uvloop's counts whole milliseconds: a hold could end early
    sleep = staticmethod(asyncio.sleep)

    def __init__(self) -> None:
        self._correction: timedelta | None = None

    def correct(self, seconds: float) -> None:
        """Add this to the machine's wall clock from now on, so that the nodes of several machines agree."""
        self._correction = timedelta(seconds=seconds) if seconds else None

    def now(self) -> datetime:
        return datetime.now(UTC) + self._correction if self._correction else datetime.now(UTC)

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(moment - time.monotonic(), call)


async def wait_for_event(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait until the event is set, at most this many seconds; return whether it is set."""
    await first_of(event.wait(), clock.sleep(seconds))
    return event.is_set()


async def wait_until_readable(descriptor: int) -> None:
    """Wait until a pipe has something to read, or the process of a handle has ended."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def first_of(*awaitables: Awaitable[object]) -> None:
    """Return when the first of the awaitables is done, and cancel the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
