"""The runner of schedules: one locked queue delays no other, and the event loop goes on."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from datetime import datetime
from threading import get_ident
from uuid import UUID

import pytest

from storage.errors import RowLocked
from storage.notifications.schedules import DueSchedule, Occurrence, Step
from supervisors.maintenance.schedules import PAGE, ScheduleRunner
from supervisors.policy.schedules import fall_due
from tests.storage.factories import NOW, agent, organization, schedule
from tests.supervisors.held_clock import HeldClock

SCOUT = agent(organization().id)


def due(number: int, at: datetime = NOW) -> DueSchedule:
    plain = schedule(SCOUT, id=UUID(int=number), next_at=at, due_at=at)
    return DueSchedule(**{field.name: getattr(plain, field.name) for field in fields(plain)})


class Store:
    """Schedules of which some are locked; those that have fired are not due any more."""

    def __init__(self, *armed: DueSchedule, locked: frozenset[UUID] = frozenset()) -> None:
        self.armed = {each.id: each for each in armed}
        self.locked = locked
        self.fired: list[UUID] = []

    async def list_due(self, now: datetime, without: Collection[UUID], limit: int) -> list[DueSchedule]:
        found = (each for each in self.armed.values() if each.due_at and each.due_at <= now)
        return [each for each in found if each.id not in without][:limit]

    async def fire(self, steps: Sequence[Step], now: datetime) -> list[Occurrence]:
        if not self.locked.isdisjoint(step.before.id for step in steps):
            raise RowLocked("held")
        for step in steps:
            self.fired.append(step.before.id)
            self.armed[step.before.id] = replace(
                self.armed[step.before.id], next_at=step.after.next_at, due_at=step.after.due_at
            )
        return [step.occurrence for step in steps if step.occurrence]


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_moments_are_searched_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def observed(schedule: DueSchedule, now: datetime) -> Step:
        threads.append(get_ident())
        return fall_due(schedule, now)

    monkeypatch.setattr("supervisors.maintenance.schedules.fall_due", observed)
    store = Store(due(1))
    await ScheduleRunner(store, HeldClock()).fire_due()
    assert store.fired == [UUID(int=1)]
    assert get_ident() not in threads


async def test_all_pages_fire_although_one_queue_is_locked() -> None:
    store = Store(*(due(number) for number in range(1, 2 * PAGE + 2)), locked=frozenset({UUID(int=3)}))
    clock = HeldClock()
    firing = asyncio.create_task(ScheduleRunner(store, clock).fire_due())
    while not firing.done():
        await turns()
        clock.advance(0.001)
    await firing
    assert set(store.armed) - set(store.fired) == {UUID(int=3)}
    assert len(store.fired) == 2 * PAGE
