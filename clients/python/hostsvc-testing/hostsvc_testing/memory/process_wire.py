"""The connection between a process in virtual time and its database, which ends when the process dies."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from hostsvc_testing.memory.tables import Transaction
from hostsvc_testing.virtual.virtual_loop import OwnedTask, VirtualLoop
from storage.errors import NodeEnded

Result = TypeVar("Result")


class ProcessWire:
    """A wire without faults. A dead process sends nothing."""

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._in_flight: list[OwnedTask] = []
        self._open: list[Transaction] = []
        self.is_cut = False

    async def carry(
        self, statement: Callable[[], Awaitable[Result]], agent_id: UUID | None, *, may_be_late: bool = True
    ) -> Result:
        self.require_alive()
        return await statement()

    async def run_to_completion(self, write: Coroutine[Any, Any, Result]) -> Result:
        if self.is_cut:
            write.close()  # nobody will await it
        self.require_alive()
        task = self._loop.create_task(write, name="write")
        self._in_flight = [*self.in_flight(), task]
        return await asyncio.shield(task)

    def require_alive(self) -> None:
        """Raise NodeEnded if the process is dead."""
        if self.is_cut:
            raise NodeEnded("this process is dead")

    def opened(self, transaction: Transaction) -> None:
        """Take note of a transaction that waits for the process between its statements."""
        self._open = [one for one in self._open if not one.is_over]
        self._open.append(transaction)

    def in_flight(self) -> list[OwnedTask]:
        """Return the writes that are under way."""
        return [task for task in self._in_flight if not task.done()]

    def cut(self) -> list[OwnedTask]:
        """Kill the process: each write under way arrives or does not. Return them."""
        self.is_cut = True
        self._end_transactions()
        under_way = self.in_flight()
        for task in under_way:
            if self._random.random() < 0.5:
                task.cancel()
        return under_way

    def _end_transactions(self) -> None:
        for transaction in self._open:
            transaction.roll_back()
