"""Schedules that are due: each is decided by the rules, and stored with its notification, a few at a time."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import structlog

from storage.errors import RowLocked
from storage.notifications.schedules import DueSchedule, Step
from supervisors.clock import Clock
from supervisors.errors import log_failure
from supervisors.policy.schedules import fall_due
from supervisors.ports import ScheduleStore

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0  # until a new moment is found
PAGE = 50  # stored by one transaction
REST_SHARE = 0.5  # of the time that a page took, before the next one


class ScheduleRunner:
    """Fires the schedules of all agents. If several nodes do it, each occurrence still happens once."""

    def __init__(self, store: ScheduleStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run_once(self) -> None:
        """Wait until a schedule is due, for a moment at most, and fire what is due."""
        due_at, now = await self._store.get_next_due(), self._clock.now()
        ahead_seconds = LOOK_SECONDS if due_at is None else (due_at - now).total_seconds()
        if ahead_seconds > 0:
            await self._clock.sleep(min(ahead_seconds, LOOK_SECONDS))
        await self.fire_due()

    async def fire_due(self) -> None:
        """Fire page after page, with rests between them, what is due."""
        locked: list[UUID] = []
        while True:
            began_at, now = self._clock.monotonic(), self._clock.now()
            due = await self._store.list_due(now, locked, PAGE)
            steps = await asyncio.to_thread(_decide, due, now) if due else []
            try:
                if steps:
                    await self._store.fire(steps, self._clock.now())
            except RowLocked:
                locked += await self._fire_each(steps)
            if len(steps) < PAGE:
                return
            await self._clock.sleep((self._clock.monotonic() - began_at) * REST_SHARE)

    async def _fire_each(self, steps: Sequence[Step]) -> list[UUID]:
        """Store each step by itself. Return the schedules whose queues are locked, which stay due."""
        locked = []
        for step in steps:
            try:
                await self._store.fire([step], self._clock.now())
            except RowLocked as error:
                locked.append(step.before.id)
                log_failure(log, "schedule waits for a locked queue", error, schedule=str(step.before.id))
        return locked


def _decide(due: Sequence[DueSchedule], now: datetime) -> list[Step]:
    """Decide what follows for each. The search of one takes up to 30 ms, so this is called in a thread."""
    return [fall_due(schedule, now) for schedule in due]
