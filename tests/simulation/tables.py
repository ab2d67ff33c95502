"""Tables in memory with the visibility and the locks of PostgreSQL at READ COMMITTED.

A statement sees what was committed when it began. A row that it wants to change is locked first, which may
take a while, and is then seen as its last holder left it; all else is still as it was at the beginning. That
gap is where wake-ups get lost, so everything that locks has it, and has a turn of the loop in it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from uuid import UUID

from storage.errors import RowLocked
from storage.model import Agent, AgentState, Notification, Organization, Run, StateUpdate, Template

Result = TypeVar("Result")

LOCK_TIMEOUT_SECONDS = 1.0


class Witness(Protocol):
    """Sees every commit at its moment."""

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None: ...

    def changed(self, agent_id: UUID, what: str) -> None:
        """Something else than a move; `what` in a few words."""
        ...


class Nobody:
    """A witness that does not care."""

    def moved(self, before: AgentState, after: AgentState, update: StateUpdate) -> None:
        pass

    def changed(self, agent_id: UUID, what: str) -> None:
        pass


@dataclass(slots=True)
class Tables:
    """What is committed. Rows are immutable values, replaced as a whole."""

    witness: Witness = field(default_factory=Nobody)
    organizations: dict[UUID, Organization] = field(default_factory=dict)
    templates: dict[UUID, Template] = field(default_factory=dict)
    agents: dict[UUID, Agent] = field(default_factory=dict)
    deleted: set[UUID] = field(default_factory=set)  # agents whose row is only remembered
    states: dict[UUID, AgentState] = field(default_factory=dict)
    notifications: dict[UUID, Notification] = field(default_factory=dict)
    runs: dict[UUID, Run] = field(default_factory=dict)
    spending: dict[tuple[UUID, date], Decimal] = field(default_factory=dict)  # by agent or organization
    locks: dict[tuple[str, UUID], asyncio.Lock] = field(default_factory=dict)

    def agent(self, agent_id: UUID) -> Agent | None:
        return None if agent_id in self.deleted else self.agents.get(agent_id)

    def queue(self, agent_id: UUID) -> list[Notification]:
        """All of one agent."""
        return [one for one in self.notifications.values() if one.agent_id == agent_id]


class Transaction:
    """What it has written is seen, and what it has locked is free, when it is left without an error."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._held: list[asyncio.Lock] = []
        self._writes: list[Callable[[], None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            for write in self._writes:
                write()
        for lock in self._held:
            lock.release()

    async def lock(self, table: str, row_id: UUID, seconds: float | None = None) -> None:
        """Wait for the row; RowLocked after so long. One turn passes in any case."""
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

    def write(self, write: Callable[[], None]) -> None:
        """Do it at the commit."""
        self._writes.append(write)


class Wire(Protocol):
    """What lies between a process and its database."""

    async def carry(
        self, statement: Callable[[], Awaitable[Result]], agent_id: UUID | None, *, may_be_late: bool = True
    ) -> Result:
        """The statement's result, if both arrive. `agent_id`: whom it is about, None for many.

        `may_be_late`: it stands alone, and may be done when nobody waits for it any more.
        """
        ...

    async def run_to_completion(self, write: Coroutine[Any, Any, Result]) -> Result:
        """Do it whether or not the caller is cancelled meanwhile."""
        ...


class ShortWire:
    """Nothing ever happens on it."""

    async def carry(
        self, statement: Callable[[], Awaitable[Result]], agent_id: UUID | None, *, may_be_late: bool = True
    ) -> Result:
        return await statement()

    async def run_to_completion(self, write: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.shield(asyncio.ensure_future(write))
