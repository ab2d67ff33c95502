"""The queue for the threads that hash passwords: its bound, its lanes, and who is next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event

import pytest

from web.credentials import hash_queue
from web.credentials.hash_queue import FIRST_ESTIMATE_SECONDS, MAX_WORK_SECONDS, HashQueue, Lane
from web.errors import Unavailable

PLACES = round(MAX_WORK_SECONDS / FIRST_ESTIMATE_SECONDS)  # in a lane, before anything was measured


class BusyQueue:
    """A queue whose only thread is busy until `end`; `order` names the jobs in the order they were run."""

    def __init__(self, queue: HashQueue) -> None:
        self.queue = queue
        self.order: list[str] = []
        self._end = Event()
        self.tasks = [asyncio.create_task(queue.run(Lane.CHECK, self._wait, 0))]

    def _wait(self) -> None:
        assert self._end.wait(10)

    async def add(self, name: str, lane: Lane, recent_attempts: int = 0) -> asyncio.Task[None]:
        task = asyncio.create_task(self.queue.run(lane, lambda: self.order.append(name), recent_attempts))
        self.tasks.append(task)
        await asyncio.sleep(0)  # it enters the queue
        return task

    async def end(self) -> list[str]:
        """Free the threads, wait for all jobs, and return the order of those that were run."""
        self._end.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        return self.order


@asynccontextmanager
async def busy_queue(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BusyQueue]:
    monkeypatch.setattr(hash_queue, "THREADS", 1)  # so that the order of the jobs is the order of their ends
    with HashQueue() as queue:
        busy = BusyQueue(queue)
        await asyncio.sleep(0)
        try:
            yield busy
        finally:
            await busy.end()


async def test_checks_of_passwords_are_not_behind_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    async with busy_queue(monkeypatch) as busy:
        for number in range(8):
            await busy.add(f"new {number}", Lane.NEW)
        await busy.add("check", Lane.CHECK)
        order = await busy.end()
    assert order.index("check") <= 2


async def test_network_with_fewest_attempts_goes_first_newest_among_equals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with busy_queue(monkeypatch) as busy:
        for name, recent_attempts in (("guesser", 9), ("old", 1), ("new", 1), ("second guesser", 5)):
            await busy.add(name, Lane.CHECK, recent_attempts)
        assert await busy.end() == ["new", "old", "second guesser", "guesser"]


async def test_full_lane_refuses_whoever_made_most_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with busy_queue(monkeypatch) as busy:
        guesses = [await busy.add(f"guess {number}", Lane.NEW, number) for number in range(PLACES)]
        await busy.add("quiet", Lane.NEW)
        with pytest.raises(Unavailable) as refused:
            await guesses[-1]
        assert refused.value.headers == {"Retry-After": "2"}
        another = await busy.add("another guess", Lane.NEW, PLACES)
        with pytest.raises(Unavailable):
            await another
        order = await busy.end()
    assert order[0] == "quiet"
    assert len(order) == PLACES


async def test_job_whose_turn_does_not_come_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_queue, "MAX_WORK_SECONDS", 0.2)
    async with busy_queue(monkeypatch) as busy:
        late = await busy.add("late", Lane.CHECK)
        with pytest.raises(Unavailable):
            await late
        assert await busy.end() == []


async def test_error_of_a_job_reaches_its_caller() -> None:
    with HashQueue() as queue:
        with pytest.raises(ZeroDivisionError):
            await queue.run(Lane.NEW, lambda: 1 // 0, 0)
        assert await queue.run(Lane.NEW, lambda: 1, 0) == 1
