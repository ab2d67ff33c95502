"""Reading the log in its order: an event is returned once none before it can be committed any more.

Ids come from a sequence, so the id of a transaction that is still in progress is a gap between those that
are visible. Such a gap is waited for. It stays one if its transaction was rolled back. An insert locks the
table before it takes its first id, and keeps the lock until the transaction is visible or gone. So these
steps, in this order, show that a gap stays: read an event behind the gap; list the transactions that hold the
lock; wait until all of these are over; read again.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from storage.events.model import EVERYTHING, Event, Interest
from storage.postgres.paging import Chunk

PREPARED = "-1/"
"""The beginning of the name of every transaction that was prepared for a commit in two phases."""


class EventLog(Protocol):
    """The part of `storage.events.events.Events` that the reader needs."""

    async def list_after(self, interest: Interest, after: int) -> Chunk[Event]: ...

    async def get_last_id(self) -> int: ...

    async def list_writers(self) -> frozenset[str]: ...


class EventReader:
    """Reads the log forward. Every event up to `settled` is visible or will never exist.

    After a read, `is_blocked` says that events are visible behind a gap, and `has_more` that more follow.
    """

    def __init__(self, log: EventLog) -> None:
        self.settled = 0
        self.is_blocked = False
        self.has_more = False
        self._log = log
        # An id up to here that is not visible belongs to one of the writers, or to nobody.
        self._known_until = 0
        self._writers: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        state = f"blocked by {len(self._writers)} writers" if self.is_blocked else "not blocked"
        return f"<EventReader: settled {self.settled}, {state}>"

    async def skip(self, pause: Callable[[], Awaitable[None]]) -> None:
        """Settle everything written until now, unread. Call `pause` while transactions are in progress."""
        end = await self._log.get_last_id()
        writers = await self._log.list_writers()
        while writers:
            await pause()
            writers = unfinished(writers, await self._log.list_writers())
        self.settled = self._known_until = end
        self._writers = writers
        self.is_blocked = self.has_more = False

    async def read(self) -> Sequence[Event]:
        """Return the events after `settled` that are settled now, in their order, and move there."""
        if self._writers:
            self._writers = unfinished(self._writers, await self._log.list_writers())
        known_until = 0 if self._writers else self._known_until
        events = await self._log.list_after(EVERYTHING, self.settled)
        count = count_settled(events, self.settled, known_until)
        self.is_blocked = count < len(events)
        self.has_more = events.is_cut and not self.is_blocked
        if count:
            # The gap behind these is often filled before the next call, so nobody is asked about it yet.
            self.settled = events[count - 1].id
        elif self.is_blocked and events[0].id - 1 > self._known_until:
            self._writers = await self._log.list_writers()
            self._known_until = events[-1].id
        return events[:count]


def count_settled(events: Iterable[Event], settled: int, known_until: int) -> int:
    """Return how many of the events follow `settled` without a gap that reaches beyond `known_until`."""
    count = 0
    for event in events:
        if event.id - 1 > max(settled, known_until):
            break
        settled = event.id
        count += 1
    return count


def unfinished(writers: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    """Return which of the writers are in progress now. A transaction is renamed when it is prepared."""
    return frozenset(name for name in now if name in writers or name.startswith(PREPARED))
