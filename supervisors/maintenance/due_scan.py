"""Finds every agent that is due or soon will be, whoever or whatever forgot to say so. It only tells."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from random import Random
from uuid import UUID

from supervisors.clock import Clock
from supervisors.engine.messages import Signal
from supervisors.engine.registry import Registry
from supervisors.engine.timer_queue import HORIZON
from supervisors.ports import StateStore

PAGE = 1000
FEW = 20  # overdue agents that are told at once after a start of the service
STARTS_PER_SECOND = 500  # of the others


class DueScan:
    """Repairs what a lost signal missed, and winds the alarm clock for the next minutes."""

    def __init__(self, store: StateStore, registry: Registry, clock: Clock, random: Random) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._random = random
        self._turns: dict[UUID, float] = {}  # when each that waits its turn is told, by the monotonic clock
        self._all_told_at = 0.0

    async def run_once(self) -> None:
        """One pass over what is due, what soon will be, and what is active on a sleeping agent."""
        if self._clock.monotonic() >= self._all_told_at:
            self._turns.clear()
        async for agent_id, signal in self._overdue():
            if self._clock.monotonic() >= self._turns.get(agent_id, 0):
                self._registry.tell(agent_id, signal)

    async def recover(self) -> None:
        """After a start: end the runs that died, put the queued starts back in order, then scan.

        What fell due while nobody looked starts a few agents at a time, so that they do not all come at once.
        """
        interrupted = await self._store.list_running()
        self._registry.spread_recovery(len(interrupted) / STARTS_PER_SECOND)
        self._registry.tell_all(interrupted, Signal.RELOAD)
        self._registry.tell_all(await self._store.list_queued(), Signal.RELOAD)
        overdue = {agent_id: signal async for agent_id, signal in self._overdue()}
        for agent_id in list(overdue)[:FEW]:
            self._registry.tell(agent_id, overdue[agent_id])
        self._give_turns(list(overdue)[FEW:])

    def _give_turns(self, agent_ids: Sequence[UUID]) -> None:
        """Let the alarm clock ring for one after the other. A message to one of them need not wait for it."""
        now, moment = self._clock.now(), self._clock.monotonic()
        for place, agent_id in enumerate(agent_ids):
            later = (place + self._random.uniform(0, FEW)) / STARTS_PER_SECOND
            self._turns[agent_id] = moment + later
            self._registry.schedule(agent_id, now + timedelta(seconds=later))
        self._all_told_at = max(self._turns.values(), default=0.0)

    async def _overdue(self) -> AsyncIterator[tuple[UUID, Signal]]:
        """Who is due, and why it should look; winds the alarm clock for those who soon will be."""
        now, last_due = self._clock.now(), None
        while True:
            due = await self._store.list_due(now + HORIZON, last_due, PAGE)
            for agent_id, at in due:
                if at <= now:
                    yield agent_id, Signal.DUE
                else:
                    self._registry.schedule(agent_id, at)
            if len(due) < PAGE:
                break
            last_due = (due[-1][1], due[-1][0])
        last: UUID | None = None
        while True:
            active = await self._store.list_attention(now, last, PAGE)
            for agent_id in active:
                yield agent_id, Signal.NOTIFIED
            if len(active) < PAGE:
                return
            last = active[-1]
