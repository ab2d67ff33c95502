"""The event feed: who gets which events, and how soon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from hostsvc.config import POOL_DEFAULTS
from storage.errors import DatabaseUnavailable, RowLocked
from storage.events.events import Events
from storage.events.model import EVERYTHING, Event, EventType, Interest
from storage.postgres.migrations import migrate
from storage.postgres.paging import Chunk
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from supervisors.clock import SystemClock
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import (
    EVENT_BYTES,
    MAX_BUFFERED_BYTES,
    MODEL_DELTA,
    FeedClosed,
    LiveEvent,
    LogReplaced,
    SubscriberTooSlow,
    Subscription,
)
from supervisors.maintenance.loop import repeat
from tests.crash.faults import killable_postgres
from tests.storage.events.log import connected, write
from tests.storage.events.recorded import forget_events
from tests.storage.factories import NOW

WRITE_MANY = """
INSERT INTO event (at, type, organization_id)
SELECT now(), 'agent.asleep', gen_random_uuid() FROM generate_series(1, $1)
"""


@pytest.fixture
def events(pool: Pool) -> Events:
    return Events(pool)


@asynccontextmanager
async def running(events: Events) -> AsyncIterator[EventFeed]:
    """Yield a feed that runs as in the service."""
    clock = SystemClock()
    feed = EventFeed(events, clock)
    task = asyncio.create_task(repeat("event feed", feed.run_once, 0, clock))
    yield feed
    task.cancel()
    await asyncio.wait({task})


@pytest.fixture
async def feed(events: Events) -> AsyncIterator[EventFeed]:
    async with running(events) as feed:
        yield feed


async def take(subscription: Subscription, count: int) -> list[int]:
    """Return the ids of the next events."""
    ids: list[int] = []
    while len(ids) < count:
        ids += [event.id for event in await subscription.get() if isinstance(event, Event)]
    return ids


async def rest(subscription: Subscription) -> list[int]:
    """Return the ids of all events that a closed feed has offered."""
    ids: list[int] = []
    with suppress(FeedClosed):
        while True:
            ids += [event.id for event in await subscription.get() if isinstance(event, Event)]
    return ids


async def test_subscription_gets_later_events_only(pool: Pool, events: Events, feed: EventFeed) -> None:
    earlier = await write(pool)
    async with feed.subscribe(EVERYTHING) as subscription:
        assert subscription.position == earlier
        later = [await write(pool), await write(pool)]
        events.written.set()
        assert await take(subscription, 2) == later
        assert feed.settled == later[-1]


async def test_each_interest_gets_its_own_events_only(pool: Pool, events: Events, feed: EventFeed) -> None:
    owner, other = UUID(int=1), UUID(int=2)
    agent, run = UUID(int=11), UUID(int=12)
    interests = {
        "all": EVERYTHING,
        "owner": Interest(frozenset({owner})),
        "both": Interest(frozenset({owner, other})),
        "agent": Interest(frozenset({owner}), agent),
        "run": Interest(frozenset({owner}), agent, run),
        "nobody": Interest(frozenset()),
    }
    async with AsyncExitStack() as stack:
        subscriptions = {
            name: await stack.enter_async_context(feed.subscribe(interest))
            for name, interest in interests.items()
        }
        of_run = await write(pool, EventType.RUN_STARTED, organization_id=owner, agent_id=agent, run_id=run)
        of_agent = await write(pool, organization_id=owner, agent_id=agent)
        of_owner = await write(pool, organization_id=owner, agent_id=UUID(int=13))
        pause = await write(pool, EventType.ORGANIZATION_PAUSED, organization_id=owner)
        budget = await write(pool, EventType.BUDGET_REACHED, organization_id=owner)
        of_other = await write(pool, EventType.ORGANIZATION_PAUSED, organization_id=other)
        events.written.set()
        await take(subscriptions["all"], 6)
        await feed.close()

        owned = [of_run, of_agent, of_owner, pause, budget]
        expected = {
            "all": [],
            "owner": owned,
            "both": [*owned, of_other],
            "agent": [of_run, of_agent, pause],
            "run": [of_run],
            "nobody": [],
        }
        assert {name: await rest(subscription) for name, subscription in subscriptions.items()} == expected
        for name in ("owner", "both", "agent", "run"):
            listed = await events.list_after(interests[name], 0)
            assert [event.id for event in listed] == expected[name], f"the table agrees on {name}"
    assert feed.size == 0


async def test_live_events_reach_their_agent_and_run_only(feed: EventFeed) -> None:
    owner, agent, run = UUID(int=1), UUID(int=11), UUID(int=12)
    delta = LiveEvent(MODEL_DELTA, NOW, owner, agent, run, {"text": "Hel"})
    async with (
        feed.subscribe(Interest(frozenset({owner}), agent)) as of_agent,
        feed.subscribe(Interest(frozenset({owner}), UUID(int=13))) as of_other,
    ):
        feed.publish(delta)
        assert await of_agent.get() == [delta]
        await feed.close()
        assert await rest(of_other) == []


async def test_slow_subscriber_gets_its_buffer_and_is_cut_off(
    pool: Pool, events: Events, feed: EventFeed
) -> None:
    async with feed.subscribe(EVERYTHING) as slow, feed.subscribe(EVERYTHING) as quick:
        await pool.execute(WRITE_MANY, 1500)
        events.written.set()
        everything = await take(quick, 1500)
        taken = await take(slow, 1)
        assert taken == everything[: MAX_BUFFERED_BYTES // EVENT_BYTES]
        with pytest.raises(SubscriberTooSlow):
            await slow.get()
    async with feed.subscribe(EVERYTHING) as resumed:
        missed = await events.list_after(EVERYTHING, taken[-1], resumed.position, limit=1500)
        assert [event.id for event in missed] == everything[len(taken) :]


async def test_long_live_events_fill_a_buffer_by_their_bytes(feed: EventFeed) -> None:
    delta = LiveEvent(MODEL_DELTA, NOW, UUID(int=1), UUID(int=11), UUID(int=12), {"text": "x" * 300_000})
    async with feed.subscribe(EVERYTHING) as subscription:
        for _ in range(5):
            feed.publish(delta)
        assert len(await subscription.get()) == 3
        with pytest.raises(SubscriberTooSlow):
            await subscription.get()


async def test_closed_feed_delivers_the_last_events_and_refuses(
    pool: Pool, events: Events, feed: EventFeed
) -> None:
    async with feed.subscribe(EVERYTHING) as subscription:
        last = await write(pool)
        await feed.close()
        assert await take(subscription, 1) == [last]
        with pytest.raises(FeedClosed):
            await subscription.get()
    with pytest.raises(FeedClosed):
        async with feed.subscribe(EVERYTHING):
            pass


async def test_unannounced_event_arrives_within_the_poll(pool: Pool, feed: EventFeed) -> None:
    async with feed.subscribe(EVERYTHING) as subscription:
        unannounced = await write(pool)
        assert await take(subscription, 1) == [unannounced]


async def test_open_transaction_with_an_event_delays_later_ones_only(
    database_url: str, pool: Pool, events: Events, feed: EventFeed
) -> None:
    async with connected(database_url) as other, feed.subscribe(EVERYTHING) as subscription:
        transaction = other.transaction()
        before = await write(pool)
        await transaction.start()
        in_flight, behind = await write(other), await write(pool)
        events.written.set()
        assert await take(subscription, 1) == [before]
        await transaction.commit()
        assert await take(subscription, 2) == [in_flight, behind]


async def test_first_subscription_is_refused_while_the_end_is_unknown(
    database_url: str, pool: Pool, feed: EventFeed
) -> None:
    async with connected(database_url) as other:
        transaction = other.transaction()
        await transaction.start()
        in_flight = await write(other)
        with pytest.raises(RowLocked, match="transaction that writes events"):
            async with feed.subscribe(EVERYTHING):
                pass
        await transaction.commit()
    async with feed.subscribe(EVERYTHING) as subscription:
        assert subscription.position == in_flight


class CountingEvents(Events):
    """A log that counts how often it is read."""

    reads = 0

    async def list_after(self, *args: Any, **options: Any) -> Chunk[Event]:
        self.reads += 1
        return await super().list_after(*args, **options)


async def test_feed_without_subscriptions_reads_nothing(pool: Pool) -> None:
    events = CountingEvents(pool)
    async with running(events) as feed:
        async with feed.subscribe(EVERYTHING) as subscription:
            before = await write(pool)
            events.written.set()
            assert await take(subscription, 1) == [before]
        reads = events.reads
        unread = await write(pool)
        events.written.set()
        async with feed.subscribe(Interest(frozenset())) as later:
            assert (later.position, events.reads) == (unread, reads)


async def test_commits_of_a_busy_moment_share_reads(pool: Pool) -> None:
    events = CountingEvents(pool)
    async with running(events) as feed, feed.subscribe(EVERYTHING) as subscription:
        for _ in range(200):
            await write(pool)
            events.written.set()
        await take(subscription, 200)
        assert events.reads < 100


async def test_oldest_follows_the_retention(pool: Pool, feed: EventFeed) -> None:
    ids = [await write(pool) for _ in range(3)]
    async with feed.subscribe(EVERYTHING):
        assert feed.oldest == ids[0] - 1
    await forget_events(pool, until=ids[1])
    async with feed.subscribe(EVERYTHING):
        assert feed.oldest == ids[1]
    await forget_events(pool)
    async with feed.subscribe(EVERYTHING):
        assert feed.oldest == ids[2]


async def test_log_that_lost_its_end_ends_subscriptions(pool: Pool, feed: EventFeed) -> None:
    """A standby that was promoted without the last commits gives their ids again."""
    async with feed.subscribe(EVERYTHING) as subscription:
        ids = [await write(pool) for _ in range(3)]
        assert await take(subscription, 3) == ids
        await forget_events(pool, after=ids[0])
        await pool.execute("SELECT setval('event_id_seq', $1)", ids[0])
        with pytest.raises(LogReplaced):
            await take(subscription, 1)
        async with feed.subscribe(EVERYTHING) as later:
            assert await write(pool) == ids[1]
            assert await take(later, 1) == [ids[1]]


async def test_feed_goes_on_after_an_outage() -> None:
    with killable_postgres() as server:
        await migrate(server.url)
        async with open_pool(DatabaseSettings(url=server.url), node=None) as pool:
            events = Events(pool)
            async with running(events) as feed, feed.subscribe(EVERYTHING) as subscription:
                before = await write(pool)
                events.written.set()
                assert await take(subscription, 1) == [before]
                with capture_logs() as logs:
                    await asyncio.to_thread(server.kill_and_restart)
                    after = await written_again(pool)
                    assert await take(subscription, 1) == [after]
                assert [log for log in logs if log["log_level"] != "debug"] == []


async def test_feed_closes_soon_although_the_database_says_nothing() -> None:
    with killable_postgres() as server:
        await migrate(server.url)
        async with open_pool(DatabaseSettings(url=server.url), node=None) as pool:
            feed = EventFeed(Events(pool), SystemClock())
            async with feed.subscribe(EVERYTHING) as subscription:
                with server.stopped():
                    async with asyncio.timeout(POOL_DEFAULTS.command_timeout_seconds / 2):
                        await feed.close()
                with pytest.raises(FeedClosed):
                    await subscription.get()


async def written_again(pool: Pool) -> int:
    """Write an event as soon as the database takes it."""
    while True:
        with suppress(DatabaseUnavailable):
            return await write(pool)
