"""Programs that follow the event log as a stream does: they resume from their cursor after each loss.

Each must get every event of its interest once, in the order of the ids. An event that becomes visible at or
below an id that the feed has settled, or that one of them has read, would be missed. It is reported at once.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import UUID

from hostsvc_testing.memory.memory_events import MemoryEvents, concerns
from hostsvc_testing.memory.tables import Nobody, Tables
from storage.errors import StorageError
from storage.events.model import EVERYTHING, Event, Interest
from supervisors.events.feed import EventFeed
from supervisors.events.subscription import FeedError, Subscription
from tests.simulation.log_judge import INVARIANT, Condemn

RETRY_SECONDS = 0.25


class Follower:
    """One reader, with its cursor and what it has seen. It outlives the processes that it reads from."""

    def __init__(self, interest: Interest, condemn: Condemn) -> None:
        self.interest = interest
        self.seen: list[int] = []
        self._condemn = condemn

    @property
    def cursor(self) -> int:
        return self.seen[-1] if self.seen else 0

    async def follow(self, feed: EventFeed, events: MemoryEvents) -> None:
        """Follow the feed of one process, until that dies."""
        while True:
            with suppress(StorageError, FeedError):
                async with feed.subscribe(self.interest) as subscription:
                    await self._read_backlog(events, subscription)
                    while True:
                        self._take([event for event in await subscription.get() if isinstance(event, Event)])
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_backlog(self, events: MemoryEvents, subscription: Subscription) -> None:
        while True:
            page = await events.list_after(self.interest, self.cursor, subscription.position)
            self._take(page)
            if not page.is_cut:
                break

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.id <= self.cursor:
                self._condemn(INVARIANT, event.agent_id, f"event {event.id} is read after {self.cursor}")
            self.seen.append(event.id)


class Followers(Nobody):
    """All followers of a world: of everything, of an organization, and of an agent."""

    def __init__(self, tables: Tables, condemn: Condemn) -> None:
        self._tables = tables
        self._condemn = condemn
        self._feed: EventFeed | None = None
        self._followers: list[Follower] = []
        self._tasks: list[asyncio.Task[None]] = []

    def populate(self, organization_id: UUID, agent_id: UUID) -> None:
        """Choose what is followed; the agent is one of the organization's."""
        organization_ids = frozenset({organization_id})
        interests = (EVERYTHING, Interest(organization_ids), Interest(organization_ids, agent_id))
        self._followers = [Follower(interest, self._condemn) for interest in interests]

    def follow(self, feed: EventFeed, events: MemoryEvents) -> None:
        """Follow the feed of a process, and no other any more. Its end ends the tasks as well."""
        for task in self._tasks:
            task.cancel()
        self._feed = feed
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(follower.follow(feed, events), name="follower") for follower in self._followers
        ]

    def committed(self, events: Sequence[Event]) -> None:
        settled = self._feed.settled if self._feed is not None else 0
        for event in events:
            if event.id <= settled:
                self._condemn(
                    INVARIANT, event.agent_id, f"event {event.id} appears when {settled} is settled"
                )

    def missed(self, until: int) -> Iterator[str]:
        """Yield what a follower has not read up to this id, or has read though it is not in the log."""
        for follower in self._followers:
            rows = sorted(self._tables.events.rows.items())
            expected = {id_ for id_, event in rows if concerns(follower.interest, event)}
            missing = [id_ for id_ in sorted(expected.difference(follower.seen)) if id_ <= until]
            foreign = sorted(set(follower.seen) - expected)
            if missing or foreign:
                yield f"a follower of {follower.interest} has missed {missing} and read {foreign}"
