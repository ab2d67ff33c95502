"""A subscription to the event feed: a bounded buffer between the feed and one reader."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from storage.events.model import Event, Interest

MODEL_DELTA = "model.delta"

MAX_BUFFERED_BYTES = 1_048_576
EVENT_BYTES = 1024  # counted for each event beside the texts of a live one


class FeedError(Exception):
    """The subscription has ended.

    FeedError
    ├── SubscriberTooSlow   its buffer was full
    ├── LogReplaced         the database has lost the end of the log
    └── FeedClosed          the service is shutting down
    """


class SubscriberTooSlow(FeedError):
    """The subscriber did not take its events in time; a new subscription may go on from its cursor."""


class LogReplaced(FeedError):
    """The log ends before events that were read from it: the database was restored, or has lost commits."""


class FeedClosed(FeedError):
    """The service is shutting down."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """Something shown only while it happens, such as what a model writes. It is not stored and has no id."""

    type: str
    at: datetime
    organization_id: UUID
    agent_id: UUID
    run_id: UUID
    data: dict[str, Any]

    @property
    def size(self) -> int:
        """Return about how many bytes it takes."""
        return EVENT_BYTES + sum(len(value) for value in self.data.values() if isinstance(value, str))


FeedEvent: TypeAlias = Event | LiveEvent


class Subscription:
    """The events of one interest after `position`, in their order, for a single reader."""

    __slots__ = ("_buffer", "_bytes", "_end", "_waiter", "interest", "position")

    def __init__(self, interest: Interest, position: int) -> None:
        self.interest = interest
        self.position = position
        self._buffer: list[FeedEvent] | None = None  # an empty list would take memory in each idle stream
        self._bytes = 0
        self._end: FeedError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        count = len(self._buffer or ())
        return f"<Subscription from {self.position}: {count} events, {self._end or 'open'}>"

    @property
    def is_drained(self) -> bool:
        """Return whether the reader has taken every event up to the settled one of the feed."""
        return self._buffer is None and self._end is None

    async def get(self) -> Sequence[FeedEvent]:
        """Wait for events and return all that are there.

        Raise SubscriberTooSlow or FeedClosed once the subscription has ended and its events were taken.
        """
        while self._buffer is None:
            if self._end is not None:
                raise self._end
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        events, self._buffer, self._bytes = self._buffer, None, 0
        return events

    def offer(self, event: FeedEvent, size: int) -> None:
        """Add an event to the buffer, or end the subscription if there is no room for it."""
        if self._end is not None:
            return
        if self._bytes + size > MAX_BUFFERED_BYTES:
            self.end(SubscriberTooSlow("the subscriber does not take its events in time"))
            return
        self._bytes += size
        if self._buffer is None:
            self._buffer = [event]
        else:
            self._buffer.append(event)
        self._wake()

    def end(self, reason: FeedError) -> None:
        """End the subscription. Its reader gets what is in the buffer, and then the reason."""
        if self._end is None:
            self._end = reason
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
