"""Time, as everything of ours gets it: handed in, so that a test can hand in its own."""

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall clock for what is stored, monotonic clock for what is waited for."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on the running loop's clock: a timer of `loop.call_at` agrees with it."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much of the loop's time pass."""
        ...


class SystemClock:
    """The machine's clock and the running loop's."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
