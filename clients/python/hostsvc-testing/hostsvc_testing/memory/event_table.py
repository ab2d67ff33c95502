"""The table of events in memory: statements take ids from a sequence, and rows appear when they commit."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

import orjson

from storage.events.model import Event, NewEvent


@dataclass(slots=True)
class EventTable:
    """The committed rows, the sequence, and the transactions that hold the lock of an insert.

    As in PostgreSQL, an id that a transaction took is lost if it does not commit, and transactions may commit
    in another order than that of their ids.
    """

    rows: dict[int, Event] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    last_id: int = 0
    written: asyncio.Event = field(default_factory=asyncio.Event)  # set by each commit with events
    _transactions: "count[int]" = field(default_factory=lambda: count(1))

    def lock(self) -> int:
        """Let a transaction hold the lock from now on; return its number."""
        writer = next(self._transactions)
        self.writers.add(writer)
        return writer

    def unlock(self, writer: int) -> None:
        """End the transaction."""
        self.writers.remove(writer)

    def take_ids(self, organization_id: UUID, events: Iterable[NewEvent]) -> list[Event]:
        """Return the rows of these events, which are not visible yet."""
        return [self._row(organization_id, event) for event in events]

    def show(self, events: Iterable[Event]) -> None:
        """Make rows visible."""
        self.rows.update((event.id, event) for event in events)
        self.written.set()

    def _row(self, organization_id: UUID, event: NewEvent) -> Event:
        self.last_id += 1
        return Event(
            id=self.last_id,
            at=event.at,
            type=event.type,
            organization_id=organization_id,
            agent_id=event.agent_id,
            run_id=event.run_id,
            resource_id=event.resource_id,
            actor=event.actor,
            phase=event.phase,
            data=orjson.loads(event.data),
        )
