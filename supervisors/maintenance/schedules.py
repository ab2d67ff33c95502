"""Schedules that are due: each is decided by the rules, and stored with its notification, a few at a time.

Those that have a check are apart: a tool is called before the decision. Until that is stored the schedule
stays due, so a check that is cut off by the end of the process is made again.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from uuid import UUID

import structlog

from storage.errors import RowLocked
from storage.notifications.schedules import DueSchedule, OccurrenceOutcome, Step
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.engine.run import Ask
from supervisors.errors import log_failure
from supervisors.maintenance.due_tasks import DueTasks
from supervisors.policy.schedules import Answer, after_check, fall_due
from supervisors.ports import ScheduleStore
from supervisors.tools.arguments import ToolError
from supervisors.tools.toolset import Toolset

log = structlog.get_logger(__name__)

PAGE = 50  # stored by one transaction
REST_SHARE = 0.5  # of the time that a page took, before the next one


class ScheduleRunner:
    """Fires the schedules of all agents. If several nodes do it, each occurrence still happens once."""

    def __init__(self, store: ScheduleStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

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


class CheckRunner:
    """Makes the checks of schedules, each in its own task."""

    def __init__(
        self, stores: Storage, toolset: Toolset, ask: Ask, clock: Clock, does_chores: Callable[[], bool]
    ) -> None:
        self._stores = stores
        self._toolset = toolset
        self._ask = ask
        self._clock = clock
        self._checks = DueTasks("check of schedule", self._list_due, self._check, clock, does_chores)
        self.due = self._checks.due

    async def run_once(self) -> None:
        """Make the checks that are due while this node does the chores, until none is in progress."""
        await self._checks.run()

    async def _list_due(
        self, without: Collection[UUID], full: Collection[UUID], limit: int
    ) -> list[DueSchedule]:
        return await self._stores.schedules.list_due_checks(self._clock.now(), without, full, limit)

    async def _check(self, schedule: DueSchedule) -> None:
        await self._stores.schedules.fire([await self._decide(schedule)], self._clock.now())

    async def _decide(self, schedule: DueSchedule) -> Step:
        """Decide what follows, by the answer of the tool if it would notify."""
        now = self._clock.now()
        step = await asyncio.to_thread(fall_due, schedule, now)
        if step.occurrence is None or step.occurrence.outcome is not OccurrenceOutcome.FIRED:
            return step
        answer = await self._answer(schedule)
        return await asyncio.to_thread(after_check, schedule, answer, now)

    async def _answer(self, schedule: DueSchedule) -> Answer:
        agent, watch = await self._stores.agents.get(schedule.agent_id), schedule.watch
        if agent is None or watch is None:
            return Answer(error="The agent was deleted.")
        try:
            tool = await self._toolset.find_idempotent(agent, watch["tool"])
            use = self._toolset.use(tool, agent, None, self._ask, watch["arguments"], may_wait=False)
            return Answer(await use)
        except ToolError as error:
            return Answer(error=error.message)
