"""Parked calls that are due: reminders, ends, and the calls that a person has allowed.

The claim of a call is stored before the call is made, with a lease. So of several nodes one makes it, and
after a crash nobody makes it again unless that does no harm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog

from storage.errors import StorageError
from storage.parked_calls import CallState, CallStep, DueCall, ParkedCall
from supervisors.clock import Clock, first_of
from supervisors.errors import TryAgainLater, log_failure
from supervisors.maintenance.due_tasks import DueTasks
from supervisors.policy.parked_calls import CallAnswer, end_call, look, postpone
from supervisors.ports import ParkedCallStore

log = structlog.get_logger(__name__)

STORE_SECONDS = 30.0  # longer than a call: until its answer is stored
END_SECONDS = 4.0  # that the end of the service waits for the answer to a call
RETRY_SECONDS = 2.0  # until the next attempt to store an answer

MakeCall = Callable[[ParkedCall], Awaitable[CallAnswer]]
"""Makes a call and returns its answer. It raises StorageError or TryAgainLater if the call was not made."""


class ParkedCallRunner:
    """Looks at parked calls when they are due, and makes those that were approved."""

    def __init__(
        self,
        store: ParkedCallStore,
        make: MakeCall,
        max_call_seconds: float,
        clock: Clock,
        does_chores: Callable[[], bool],
    ) -> None:
        self._store = store
        self._make = make
        self._max_call_seconds = max_call_seconds
        self._clock = clock
        self._tasks = DueTasks("parked call", self._list_due, self._work, clock, does_chores)
        self.due = self._tasks.due

    async def run_once(self) -> None:
        """Work on the calls that are due, and on those that become so, until none is in progress."""
        await self._tasks.run()

    async def _list_due(self, without: Collection[UUID], full: Collection[UUID], limit: int) -> list[DueCall]:
        return await self._store.list_due(self._clock.now(), without, full, limit)

    async def _work(self, call: DueCall) -> None:
        """Store what the call needs; make it if this node has claimed it, and store the answer."""
        now, lease = self._clock.now(), timedelta(seconds=self._max_call_seconds + STORE_SECONDS)
        step = await self._store.change(call.id, partial(look, now=now, lease=lease), now)
        if step is None:
            return
        claimed = step.after
        is_polled = claimed.state is CallState.WAITING and claimed.remote is not None
        if claimed.due_at is None or not (claimed.state is CallState.CALLING or is_polled):
            return
        making = asyncio.create_task(self._make_and_store(claimed, claimed.due_at))
        try:
            await asyncio.shield(making)
        except asyncio.CancelledError:  # the service ends
            await first_of(asyncio.shield(making), self._clock.sleep(END_SECONDS))
            making.cancel()
            raise

    async def _make_and_store(self, call: ParkedCall, lease_until: datetime) -> None:
        try:
            rule = partial(end_call, answer=await self._make(call), lease_until=lease_until)
        except (StorageError, TryAgainLater) as error:
            log_failure(log, "parked call not made yet", error, id=str(call.id))
            rule = partial(postpone, lease_until=lease_until)
        await self._store_end(call.id, rule)

    async def _store_end(self, call_id: UUID, rule: Callable[..., CallStep | None]) -> None:
        """Store the end of a call, however long the database is away: nobody else knows the answer."""
        while True:
            now = self._clock.now()
            try:
                await self._store.change(call_id, partial(rule, now=now), now)
                return
            except StorageError as error:
                log_failure(log, "answer of a parked call not stored yet", error, id=str(call_id))
                await self._clock.sleep(RETRY_SECONDS)
