"""The processor time of a computation, for tests that bound it."""

import time
from collections.abc import Awaitable, Callable

TRIES = 5


async def least_seconds(act: Callable[[], Awaitable[None]]) -> float:
    """Return the least processor time of several tries: a collection of garbage falls into some of them."""
    seconds = []
    for _ in range(TRIES):
        begun = time.thread_time()
        await act()
        seconds.append(time.thread_time() - begun)
    return min(seconds)
