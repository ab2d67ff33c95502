"""The look at what is due: each kind runs at its moment, and costs nothing while nothing of it is armed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from typing import NoReturn

import pytest

from supervisors.maintenance.due_tasks import LOOK_SECONDS, DueLook, RunOnce
from tests.storage.factories import NOW, SECOND
from tests.supervisors.held_clock import HeldClock


async def again_and_again(run_once: RunOnce) -> NoReturn:
    while True:
        await run_once()


class Armed:
    """The moments of two kinds, the look at them, and what ran."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.moments: dict[str, datetime | None] = {"schedules": None, "checks": None}
        self.looks = 0
        self.ran: list[str] = []
        self.stays_due = False
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.next_moment: datetime | None = None  # of a kind that has run
        self.news = asyncio.Event()
        look = DueLook(self.get_next, self.news, self.clock)
        self.services = [look.when_due(kind, partial(self.run, kind)) for kind in self.moments]
        self.services.append(look.run_once)

    async def get_next(self) -> dict[str, datetime | None]:
        self.looks += 1
        return self.moments

    async def run(self, kind: str) -> None:
        self.ran.append(kind)
        await self.may_end.wait()
        if not self.stays_due:
            self.moments[kind] = self.next_moment

    async def advance(self, seconds: float = 0) -> None:
        self.clock.advance(seconds)
        for _ in range(30):
            await asyncio.sleep(0)


@pytest.fixture
async def armed() -> AsyncIterator[Armed]:
    armed = Armed()
    loops = [asyncio.create_task(again_and_again(each)) for each in armed.services]
    await armed.advance()
    yield armed
    for loop in loops:
        loop.cancel()
    await asyncio.wait(loops)


async def test_service_runs_at_the_moment_of_its_kind(armed: Armed) -> None:
    armed.moments["schedules"] = NOW + SECOND + SECOND / 2
    await armed.advance(LOOK_SECONDS)
    await armed.advance(0.4)
    assert armed.ran == []
    await armed.advance(0.1)
    assert armed.ran == ["schedules"]


async def test_kinds_without_anything_due_never_run(armed: Armed) -> None:
    for _ in range(10):
        await armed.advance(LOOK_SECONDS)
    assert (armed.ran, armed.looks) == ([], 11)


async def test_what_is_new_is_found_in_a_moment(armed: Armed) -> None:
    armed.moments["checks"] = NOW
    await armed.advance(LOOK_SECONDS)
    assert armed.ran == ["checks"]


async def test_news_are_looked_at_before_any_time_passes(armed: Armed) -> None:
    armed.moments["checks"] = NOW
    armed.news.set()
    await armed.advance()
    assert armed.ran == ["checks"]


async def test_what_stays_due_is_tried_once_a_moment(armed: Armed) -> None:
    armed.stays_due = True
    armed.moments["schedules"] = NOW
    for _ in range(10):
        await armed.advance(LOOK_SECONDS)
    assert (len(armed.ran), armed.looks) == (11, 12)


async def test_moment_right_after_a_slow_run_is_met(armed: Armed) -> None:
    armed.may_end.clear()
    armed.moments["schedules"], armed.next_moment = NOW + SECOND, NOW + SECOND + SECOND / 2
    await armed.advance(LOOK_SECONDS)
    await armed.advance(0.1)
    armed.may_end.set()
    await armed.advance(0.3)
    armed.next_moment = None
    assert armed.ran == ["schedules"]
    await armed.advance(0.1)
    assert armed.ran == ["schedules", "schedules"]
