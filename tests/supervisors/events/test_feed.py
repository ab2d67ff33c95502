"""The event feed: who gets which events, and how soon."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from storage.events.events import Events
from storage.events.model import EVERYTHING, Event
from storage.postgres.pool import Pool
from supervisors.clock import SystemClock
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import Subscription
from supervisors.maintenance.loop import repeat
from tests.storage.events.log import write


@pytest.fixture
def events(pool: Pool) -> Events:
    return Events(pool)


@pytest.fixture
async def feed(events: Events) -> AsyncIterator[EventFeed]:
    """A feed that runs as in the service."""
    clock = SystemClock()
    feed = EventFeed(events, clock)
    task = asyncio.create_task(repeat("event feed", feed.run_once, 0, clock))
    yield feed
    task.cancel()
    await asyncio.wait({task})


async def take(subscription: Subscription, count: int) -> list[int]:
    """Return the ids of the next events."""
    ids: list[int] = []
    async with asyncio.timeout(5):
        while len(ids) < count:
            ids += [event.id for event in await subscription.get() if isinstance(event, Event)]
    return ids


async def test_subscription_gets_later_events_only(pool: Pool, events: Events, feed: EventFeed) -> None:
    earlier = await write(pool)
    async with feed.subscribe(EVERYTHING) as subscription:
        assert subscription.position == earlier
        later = [await write(pool), await write(pool)]
        events.announce()
        assert await take(subscription, 2) == later
        assert feed.settled == later[-1]
