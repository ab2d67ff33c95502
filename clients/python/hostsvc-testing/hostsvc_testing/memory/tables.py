"""Tables in memory with the visibility and the locks of PostgreSQL at READ COMMITTED.

A statement sees what was committed when it began. A row to be changed is locked first, which may take time,
and is then seen as its last holder left it, while all other rows are still seen as at the beginning. Wake-ups
get lost in that gap, so everything that locks has the gap, with a turn of the loop in it.

Ids of events are taken while a statement runs. A commit takes a turn of the loop, too, so that transactions
may commit in another order than that of the ids of their events.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from uuid import UUID

from hostsvc_testing.memory.event_table import EventTable
from storage.agent_facts import AgentState, StateUpdate
from storage.approval_grants import ApprovalGrant
from storage.channels.contacts import Contact
from storage.channels.documents import Document
from storage.channels.messages import Message
from storage.errors import DatabaseUnavailable, RowLocked
from storage.events.model import Event, NewEvent
from storage.model import Agent, Notification, Organization, Run, Template
from storage.notifications.schedules import Schedule, Step
from storage.parked_calls import ParkedCall
from storage.toolbox import CallableTool
from supervisors.policy.parked_calls import Decision

Result = TypeVar("Result")

LOCK_TIMEOUT_SECONDS = 1.0
QUANTUM_SECONDS = 0.25  # all delays are multiples of it, so that events coincide


class Witness(Protocol):
    """Is told of every commit as it happens."""

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None: ...

    def activated(self, notification: Notification) -> None:
        """Take note that a notification became active, or is scheduled to."""
        ...

    def changed(self, agent_id: UUID, what: str) -> None:
        """Take note of a commit that is no state update; `what` says it in a few words."""
        ...

    def committed(self, events: Sequence[Event]) -> None:
        """Take note that a commit is complete, with the events that it has made visible."""
        ...


class Nobody:
    """A witness that ignores everything."""

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None:
        pass

    def activated(self, notification: Notification) -> None:
        pass

    def changed(self, agent_id: UUID, what: str) -> None:
        pass

    def committed(self, events: Sequence[Event]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Edit:
    """A client has given the schedule another interval, at this time."""

    before: Schedule
    every_seconds: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Made:
    """A call that the tool server has seen, under the id of the parked call or of its own."""

    call_id: UUID
    agent_id: UUID
    amount: int
    at: datetime
    grant_id: UUID | None = None  # that let it through


@dataclass(slots=True)
class Calls:
    """What has happened to calls in the world, and what the judge compares it with."""

    rows: dict[UUID, ParkedCall] = field(default_factory=dict)
    grants: dict[UUID, ApprovalGrant] = field(default_factory=dict)
    harmless: set[UUID] = field(default_factory=set)  # which may be repeated
    proposed: list[tuple[UUID, Decision]] = field(default_factory=list)  # whether acknowledged or not
    acknowledged: dict[UUID, Decision] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)
    told: list[UUID] = field(default_factory=list)  # of whose end the agent was told


@dataclass(slots=True)
class Tables:
    """The committed rows. Each is an immutable value, replaced as a whole."""

    witness: Witness = field(default_factory=Nobody)
    organizations: dict[UUID, Organization] = field(default_factory=dict)
    templates: dict[UUID, Template] = field(default_factory=dict)
    agents: dict[UUID, Agent] = field(default_factory=dict)
    deleted: set[UUID] = field(default_factory=set)  # deleted agents, whose rows are kept for reference
    states: dict[UUID, AgentState] = field(default_factory=dict)
    notifications: dict[UUID, Notification] = field(default_factory=dict)
    open: dict[UUID, dict[UUID, Notification]] = field(default_factory=dict)  # uncleared ones by agent
    last_activated_at: dict[UUID, datetime] = field(default_factory=dict)  # by agent; a column of its state
    runs: dict[UUID, Run] = field(default_factory=dict)
    spending: dict[tuple[UUID, date], Decimal] = field(default_factory=dict)  # by agent or organization
    schedules: dict[UUID, Schedule] = field(default_factory=dict)
    occurrences: list[Step | Edit] = field(default_factory=list)  # in the order of their commits
    calls: Calls = field(default_factory=Calls)
    events: EventTable = field(default_factory=EventTable)
    contacts: dict[UUID, Contact] = field(default_factory=dict)
    messages: dict[UUID, Message] = field(default_factory=dict)
    documents: dict[UUID, Document] = field(default_factory=dict)
    tools: dict[UUID, CallableTool] = field(default_factory=dict)
    locks: dict[tuple[str, UUID], asyncio.Lock] = field(default_factory=dict)

    def agent(self, agent_id: UUID) -> Agent | None:
        return None if agent_id in self.deleted else self.agents.get(agent_id)

    def put(self, one: Notification) -> None:
        """Store a notification, and index it while it is uncleared: few of many are."""
        self.notifications[one.id] = one
        mine = self.open.setdefault(one.agent_id, {})
        mine.pop(one.id, None) if one.cleared else mine.update({one.id: one})

    def uncleared(self, agent_id: UUID, due_by: datetime | None = None) -> list[Notification]:
        """Return the uncleared notifications of an agent, or those that are not scheduled for later."""
        found = self.open.get(agent_id, {}).values()
        return [one for one in found if not (due_by and one.scheduled_for and one.scheduled_for > due_by)]

    def memories(self, agent_id: UUID | None) -> dict[str, Document]:
        """Return the documents of an agent that have a path, by it."""
        own = (each for each in self.documents.values() if each.agent_id == agent_id)
        return {each.path: each for each in own if each.path and each.deleted_at is None}

    def queue(self, agent_id: UUID) -> list[Notification]:
        """Return all notifications of an agent."""
        return [one for one in self.notifications.values() if one.agent_id == agent_id]


class Transaction:
    """A transaction: its writes become visible and its locks are released when it ends without an error."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._held: list[asyncio.Lock] = []
        self._writes: list[Callable[[], None]] = []
        self._events: list[Event] = []
        self._writer: int | None = None  # its number, once it holds the lock of the table of events
        self.is_over = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._require_open()
                await self._commit()
        finally:
            self.roll_back()

    def roll_back(self) -> None:
        """Release the locks; what is not committed yet never will be."""
        self.is_over = True
        if self._writer is not None:
            self._tables.events.unlock(self._writer)
        for lock in self._held:
            lock.release()
        self._writer, self._held = None, []

    async def lock(self, table: str, row_id: UUID, seconds: float | None = None) -> None:
        """Lock the row. Raise RowLocked after this many seconds. One turn of the loop passes in any case."""
        await asyncio.sleep(0)
        lock = self._tables.locks.setdefault((table, row_id), asyncio.Lock())
        if lock in self._held:
            return
        if not lock.locked():
            await lock.acquire()  # at once
        else:
            try:
                async with asyncio.timeout(seconds):
                    await lock.acquire()
            except TimeoutError:
                raise RowLocked(f"a row of {table} is locked by somebody else") from None
        self._held.append(lock)
        self._require_open()

    def _require_open(self) -> None:
        if self.is_over:
            self.roll_back()
            raise DatabaseUnavailable("the connection was terminated")

    def write(self, write: Callable[[], None]) -> None:
        """Defer a write to the commit."""
        self._writes.append(write)

    def insert_events(self, organization_id: UUID, events: Iterable[NewEvent]) -> None:
        """Take the ids of these events, which become visible with the commit."""
        table = self._tables.events
        if self._writer is None:
            self._writer = table.lock()
        self._events += table.take_ids(organization_id, events)

    async def _commit(self) -> None:
        if self._events:
            await asyncio.sleep(0)  # a transaction with later ids may commit first
        for write in self._writes:
            write()
        if self._events:
            self._tables.events.show(self._events)
        self._tables.witness.committed(self._events)


class Wire(Protocol):
    """The connection of a process to its database."""

    async def carry(
        self, statement: Callable[[], Awaitable[Result]], agent_id: UUID | None, *, may_be_late: bool = True
    ) -> Result:
        """Return the statement's result, if both arrive. `agent_id` is its agent, None for several.

        `may_be_late` allows it to be done when its caller no longer waits.
        """
        ...

    async def run_to_completion(self, write: Coroutine[Any, Any, Result]) -> Result:
        """Finish the write even if the caller is cancelled."""
        ...

    def opened(self, transaction: Transaction) -> None:
        """Take note of a transaction that lasts for several statements."""
        ...


class ShortWire:
    """A wire without faults."""

    def opened(self, transaction: Transaction) -> None:
        """Do nothing: it is never cut."""

    async def carry(
        self, statement: Callable[[], Awaitable[Result]], agent_id: UUID | None, *, may_be_late: bool = True
    ) -> Result:
        return await statement()

    async def run_to_completion(self, write: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.shield(asyncio.ensure_future(write))
