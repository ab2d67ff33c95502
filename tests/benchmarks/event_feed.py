"""What an event costs with thousands of streams of other agents; exit 1 if they make it dearer.

Both feeds run in turn in the same process; the ratio is the median over pairs, so a noisy machine hardly
matters. Run it as `python -m tests.benchmarks.event_feed`; it needs no database.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from statistics import median
from uuid import UUID

from storage.events.model import Event, Interest
from storage.ids import new_id
from storage.postgres.paging import Chunk
from supervisors.clock import SystemClock
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import MODEL_DELTA, LiveEvent

STREAMS_OF_OTHERS = 10_000
EVENTS = 500
ROUNDS = 25
BAR = 0.8

OWNER, SCOUT, RUN = new_id(), new_id(), new_id()


class EmptyLog:
    """A log without events: the benchmark publishes live ones."""

    def __init__(self) -> None:
        self.written = asyncio.Event()

    async def list_after(self, interest: Interest, after: int) -> Chunk[Event]:
        return Chunk([], is_cut=False)

    async def get_first_id(self) -> int | None:
        return None

    async def get_last_id(self) -> int:
        return 0

    async def list_writers(self) -> frozenset[str]:
        return frozenset()


async def measure() -> tuple[list[float], list[float]]:
    """Return the microseconds of an event for one stream: alone, and beside the streams of other agents."""
    alone, beside = EventFeed(EmptyLog(), SystemClock()), EventFeed(EmptyLog(), SystemClock())
    async with AsyncExitStack() as stack:
        for _ in range(STREAMS_OF_OTHERS):
            await stack.enter_async_context(beside.subscribe(_of_agent(new_id())))
        pairs = [(await _cost(alone), await _cost(beside)) for _ in range(ROUNDS)]
    return [one for one, _ in pairs], [many for _, many in pairs]


def ratio_of(alone: list[float], beside: list[float]) -> float:
    return median(one / many for one, many in zip(alone, beside, strict=True))


async def _cost(feed: EventFeed) -> float:
    delta = LiveEvent(MODEL_DELTA, SystemClock().now(), OWNER, SCOUT, RUN, {"text": "Hello"})
    async with feed.subscribe(_of_agent(SCOUT)) as subscription:
        began = time.process_time()
        for _ in range(EVENTS):
            feed.publish(delta)
        seconds = time.process_time() - began
        if len(await subscription.get()) != EVENTS:
            raise RuntimeError("the stream has missed events")
        return seconds / EVENTS * 1e6


def _of_agent(agent_id: UUID) -> Interest:
    return Interest(frozenset({OWNER}), agent_id)


def main() -> int:
    alone, beside = asyncio.run(measure())
    ratio = ratio_of(alone, beside)
    verdict = "met" if ratio >= BAR else "not met"
    print(  # noqa: T201
        f"an event for one stream: {median(alone):.2f} µs alone, {median(beside):.2f} µs beside "
        f"{STREAMS_OF_OTHERS:,} streams of other agents, ratio {ratio:.2f} (bar {BAR}): {verdict}"
    )
    return 0 if ratio >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
