"""The processor time of a computation, for tests that bound it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

TRIES = 5
REFERENCE_SECONDS = 0.015


async def least_seconds(act: Callable[[], Awaitable[None]]) -> float:
    """Return the least processor time of several tries, as on a machine whose `slowness` is 1.

    A collection of garbage falls into some of them.
    """
    seconds = []
    for _ in range(TRIES):
        begun = time.thread_time()
        await act()
        seconds.append((time.thread_time() - begun) / slowness())
    return min(seconds)


def slowness() -> float:
    """Return how many times longer a computation takes here now than where bounds are met, at least 1."""
    begun = time.thread_time()
    squares = {}
    for number in range(60_000):
        squares[str(number)] = number * number % 7
    return max(1.0, (time.thread_time() - begun) / REFERENCE_SECONDS)


@contextmanager
def callbacks() -> Iterator[list[float]]:
    """Measure the CPU time of each callback of the event loop."""
    seconds: list[float] = []
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        start = time.thread_time()
        run(handle)
        seconds.append(time.thread_time() - start)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", measured)
        yield seconds
