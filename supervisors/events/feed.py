"""The event feed: the one reader of the log in a process, and the subscriptions that it serves.

Commits of this process wake it, other programs ring the doorbell, and it looks once a second for what neither
of the two announced. One read is in progress at a time, followed by a short rest: commits that come together
share a read. While nobody subscribes it does not read at all. The first subscription then begins at the end
of the log.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from uuid import UUID

import structlog

from storage.errors import RowLocked, StorageError
from storage.events.model import PAUSES, Interest
from storage.events.reader import EventReader
from supervisors.clock import Clock, wait_for_event
from supervisors.events.subscription import (
    EVENT_BYTES,
    FeedClosed,
    FeedError,
    FeedEvent,
    LiveEvent,
    LogReplaced,
    Subscription,
)
from supervisors.ports import EventStore

POLL_SECONDS = 1.0
REST_SECONDS = 0.01  # after a read, so that the commits of a busy moment share the next one
MAX_BLOCKED_SECONDS = 0.04  # between two reads while events wait for a transaction before them
SKIP_PAUSE_SECONDS = 0.005
SKIP_SECONDS = 1.0
CLOSE_SECONDS = 1.0

ALL = "all"
EventIndex = dict[Hashable, dict[Subscription, None]]

log = structlog.get_logger()


class EventFeed:
    """Reads the log for all subscriptions of this process.

    `oldest` is the id before the oldest event that is kept: a reader with an earlier cursor has missed some.
    """

    def __init__(self, events: EventStore, clock: Clock) -> None:
        self.oldest = 0
        self._events = events
        self._clock = clock
        self._reader = EventReader(events)
        self._reading = asyncio.Lock()
        self._subscriptions: dict[Subscription, None] = {}
        self._index: EventIndex = {}  # by agent, run or organization
        self._pauses: EventIndex = {}  # subscriptions to agents by the organizations that may be paused
        self._joined = asyncio.Event()
        self._rest_seconds = REST_SECONDS
        self._is_behind = False
        self._next_poll_at = 0.0
        self._end: FeedError | None = None
        # Assigned where there are other nodes: whether one of them follows, and what takes live events there.
        self.is_followed_elsewhere: Callable[[UUID, UUID, UUID], bool] = lambda *_: False
        self.pass_on: Callable[[LiveEvent], None] = lambda _: None

    def __repr__(self) -> str:
        return f"<EventFeed: {len(self._subscriptions)} subscriptions, {self._reader}>"

    @property
    def settled(self) -> int:
        """The id up to which every event has been offered to its subscriptions."""
        return self._reader.settled

    @property
    def size(self) -> int:
        """The number of subscriptions."""
        return len(self._subscriptions)

    @asynccontextmanager
    async def subscribe(self, interest: Interest) -> AsyncIterator[Subscription]:
        """Yield a subscription to the events after its `position`. Earlier ones are all in the table.

        Raise FeedClosed during the shutdown, and RowLocked if the end of the log cannot be told because a
        transaction that writes events does not end.
        """
        if self._end is not None:
            raise self._end
        if not self._subscriptions:
            await self._find_end()
        subscription = Subscription(interest, self.settled)
        self._subscriptions[subscription] = None
        for index, key in self._places(interest):
            index.setdefault(key, {})[subscription] = None
        self._joined.set()
        if self._end is not None:
            subscription.end(self._end)
        try:
            yield subscription
        finally:
            self._remove(subscription)

    def followed(self, limit: int) -> list[str]:
        """Return of whom subscriptions show live events: ids of runs, agents and organizations, or `all`."""
        keys = {str(key) for key in self._index if key != ALL}
        return sorted(keys) if len(keys) <= limit else [ALL]

    def is_followed(self, organization_id: UUID, agent_id: UUID, run_id: UUID) -> bool:
        """Return whether a subscription would be offered a live event of this run."""
        index = self._index
        if run_id in index or agent_id in index or organization_id in index or ALL in index:
            return True
        return self.is_followed_elsewhere(organization_id, agent_id, run_id)

    def publish(self, live: LiveEvent) -> None:
        """Offer a live event to the subscriptions that it concerns, here and at other nodes."""
        self.show(live)
        self.pass_on(live)

    def show(self, live: LiveEvent) -> None:
        """Offer a live event to the subscriptions of this process."""
        if self._subscriptions:
            self._offer(live, live.size)

    async def run_once(self) -> None:
        """Wait for events while somebody subscribes, and offer them."""
        if not self._subscriptions:
            self._joined.clear()
            await self._joined.wait()
        if not self._is_behind:
            await wait_for_event(self._events.written, POLL_SECONDS, self._clock)
        self._events.written.clear()
        self._is_behind = False
        await self._read()
        await self._clock.sleep(self._rest_seconds)

    async def close(self) -> None:
        """Offer what is committed, and end all subscriptions."""
        with suppress(StorageError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._read()
        self._end = FeedClosed("the service is shutting down")
        for subscription in self._subscriptions:
            subscription.end(self._end)

    async def _read(self) -> None:
        async with self._reading:
            if not self._subscriptions:
                return
            await self._check_log()
            for event in await self._reader.read():
                self._offer(event, EVENT_BYTES)
            # A gap is looked at again soon, even if nothing else is committed.
            is_blocked = self._reader.is_blocked
            self._is_behind = is_blocked or self._reader.has_more
            rest_seconds = min(2 * self._rest_seconds, MAX_BLOCKED_SECONDS)
            self._rest_seconds = rest_seconds if is_blocked else REST_SECONDS

    async def _check_log(self) -> None:
        """Look once a second where the log begins, and whether it still has its end.

        After a failover that lost commits, ids are given again. Subscribers begin again, with their cursors.
        """
        now = self._clock.monotonic()
        if now < self._next_poll_at:
            return
        self._next_poll_at = now + POLL_SECONDS
        if await self._events.get_last_id() < self.settled:
            await self._skip()
            for subscription in self._subscriptions:
                subscription.end(LogReplaced("the database has lost the end of the event log"))
        await self.refresh_oldest()

    async def refresh_oldest(self) -> None:
        """Look where the log begins now."""
        first_id = await self._events.get_first_id()
        self.oldest = self.settled if first_id is None else min(first_id - 1, self.settled)

    async def _find_end(self) -> None:
        """Settle the end of the log, unless another caller has subscribed in the meantime."""
        async with self._reading:
            if self._subscriptions:
                return
            await self._skip()
            await self.refresh_oldest()

    async def _skip(self) -> None:
        """Settle the end of the log."""
        deadline = self._clock.monotonic() + SKIP_SECONDS
        await self._reader.skip(partial(self._pause, deadline))

    async def _pause(self, deadline: float) -> None:
        if self._clock.monotonic() >= deadline:
            raise RowLocked("a transaction that writes events has not ended for too long")
        await self._clock.sleep(SKIP_PAUSE_SECONDS)

    def _places(self, interest: Interest) -> Iterator[tuple[EventIndex, Hashable]]:
        """Yield where the subscriptions of this interest are found."""
        organization_ids = interest.organization_ids
        if interest.run_id is not None:
            yield self._index, interest.run_id
        elif interest.agent_id is not None:
            yield self._index, interest.agent_id
            for organization_id in organization_ids or ():
                yield self._pauses, organization_id
        elif organization_ids is not None:
            for organization_id in organization_ids:
                yield self._index, organization_id
        else:
            yield self._index, ALL

    def _offer(self, event: FeedEvent, size: int) -> None:
        for key in (event.run_id, event.agent_id, event.organization_id, ALL):
            for subscription in self._index.get(key, ()):
                subscription.offer(event, size)
        if event.type in PAUSES:
            for subscription in self._pauses.get(event.organization_id, ()):
                subscription.offer(event, size)

    def _remove(self, subscription: Subscription) -> None:
        del self._subscriptions[subscription]
        for index, key in self._places(subscription.interest):
            found = index[key]
            del found[subscription]
            if not found:
                del index[key]
