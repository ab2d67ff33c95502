"""The connection of a simulated process, which loses statements and answers, and stands still with it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from random import Random
from typing import TypeVar
from uuid import UUID

from hostsvc_testing.memory.process_wire import ProcessWire
from hostsvc_testing.memory.tables import QUANTUM_SECONDS
from hostsvc_testing.virtual.history import History
from hostsvc_testing.virtual.virtual_loop import OwnedTask, VirtualLoop
from storage.errors import DatabaseUnavailable, StorageError

Result = TypeVar("Result")

MOST_DELAY = 4
IDLE_IN_TRANSACTION_SECONDS = 5.0  # as in SERVER_SETTINGS of storage.postgres.connections


class Fault(StrEnum):
    NOT_SENT = "is never sent"
    ANSWER_LOST = "is done, its answer lost"
    LATE = "is given up, and done later"
    SLOW = "takes its time"
    SLOW_ANSWER = "is answered late"


DRAWN = (*Fault, Fault.LATE)  # twice, as a late statement may meet what has happened since


class FaultyWire(ProcessWire):
    """A wire that is healthy but for episodes of trouble.

    `disturbed` is called with the agent of a fault (None for any), and with how long it lasts at least.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        random: Random,
        history: History,
        disturbed: Callable[[UUID | None, float], None],
    ) -> None:
        super().__init__(loop, random)
        self._history = history
        self._disturbed = disturbed
        self._troubled_until = 0.0
        self._share_of_faults = 0.0
        self.is_frozen = False
        self._under_way: dict[OwnedTask, UUID | None] = {}

    def trouble(self, seconds: float, share: float) -> None:
        """Let this share of the statements meet a fault for this long, from now on."""
        self._troubled_until, self._share_of_faults = self._loop.time() + seconds, share

    async def carry(
        self, statement: Callable[[], Awaitable[Result]], agent_id: UUID | None, *, may_be_late: bool = True
    ) -> Result:
        self.require_alive()
        task = asyncio.current_task()
        if not isinstance(task, OwnedTask):
            return await self._carry(statement, agent_id, may_be_late=may_be_late)
        self._under_way[task] = agent_id
        task.is_at_server += 1
        try:
            return await self._carry(statement, agent_id, may_be_late=may_be_late)
        finally:
            task.is_at_server -= 1
            self._under_way.pop(task, None)
            if not task.is_at_server:
                await self._until_thawed()

    async def _carry(
        self, statement: Callable[[], Awaitable[Result]], agent_id: UUID | None, *, may_be_late: bool
    ) -> Result:
        if self._loop.time() >= self._troubled_until or self._random.random() >= self._share_of_faults:
            return await statement()
        fault = self._random.choice(DRAWN)
        if fault is Fault.LATE and not may_be_late:
            fault = Fault.NOT_SENT
        delay = QUANTUM_SECONDS * self._random.randint(1, MOST_DELAY)
        self._disturbed(agent_id, delay)
        self._history.note(f"a statement about {self._history.name(agent_id)} {fault} ({delay} s)")
        return await self._suffer(fault, statement, delay)

    def freeze(self) -> None:
        """Send nothing and take no answer from now on. The server ends transactions that stand still."""
        self.is_frozen = True
        self._idle_timer = self._loop.call_later(IDLE_IN_TRANSACTION_SECONDS, self._end_transactions)

    def thaw(self) -> None:
        """Go on."""
        self.is_frozen = False
        self._idle_timer.cancel()

    async def _until_thawed(self) -> None:
        """Take no answer while the process is frozen."""
        if self.is_frozen:
            await asyncio.sleep(0)  # its task is held before the next turn

    def agents_under_way(self) -> set[UUID | None]:
        """Return the agents of the statements that are under way; None if one is about several."""
        return set(self._under_way.values())

    async def sever(self) -> None:
        """End the connections of a frozen process; return when nothing of it can arrive any more."""
        for task in {*self.cut(), *self._under_way}:
            if task not in self._in_flight:
                task.cancel()
        while any(task.is_at_server for task in (*self._in_flight, *self._under_way) if not task.done()):  # noqa: ASYNC110
            await asyncio.sleep(QUANTUM_SECONDS)

    @property
    def is_in_transaction(self) -> bool:
        """Return whether a transaction waits for the process, and others perhaps for its locks."""
        return any(not one.is_over for one in self._open)

    async def _suffer(self, fault: Fault, statement: Callable[[], Awaitable[Result]], delay: float) -> Result:
        match fault:
            case Fault.NOT_SENT:
                raise DatabaseUnavailable("the statement was not sent")
            case Fault.LATE:
                late = self._loop.create_task(_later(statement, delay), name="late statement")
                late.is_at_server = 1
                self._in_flight.append(late)
                raise DatabaseUnavailable("the statement was given up")
            case Fault.SLOW:
                await asyncio.sleep(delay)
                return await statement()
            case Fault.SLOW_ANSWER:
                result = await statement()
                await asyncio.sleep(delay)
                return result
            case Fault.ANSWER_LOST:
                await statement()
                raise DatabaseUnavailable("the answer was lost")


async def _later(statement: Callable[[], Awaitable[object]], delay: float) -> None:
    await asyncio.sleep(delay)
    with suppress(StorageError):  # the process is dead
        await statement()
