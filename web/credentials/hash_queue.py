"""A bounded queue for the threads that hash passwords.

There are two lanes, which take turns at the threads: checks of stored passwords and hashes of new ones. So
log-ins are not behind sign-ups. Within a lane, networks with the fewest recent attempts go first, so someone
who guesses waits behind everybody else. Equals go newest first: after a flood the oldest have given up.
Nothing depends on whether an account exists, so the time of an answer does not tell.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from web.errors import Unavailable

THREADS = 2  # a hash takes 64 MiB and one core
MAX_WORK_SECONDS = 2.0  # that may wait in each lane
RETRY_SECONDS = 2
FIRST_ESTIMATE_SECONDS = 0.1  # of one job; afterwards it is measured
MIN_ESTIMATE_SECONDS = 0.01  # so that a lane has at most 200 jobs
WEIGHT_OF_LATEST = 0.125  # in the estimate

Result = TypeVar("Result")


class Lane(Enum):
    """What a job is for. Each lane gets every other free thread while both have jobs."""

    CHECK = auto()  # of a stored password: log-in, change of a password, acceptance of an invite
    NEW = auto()  # a new password: sign-up, reset, change


@dataclass(eq=False, slots=True)
class _Job:
    work: Callable[[], Any]
    rank: tuple[int, int]  # the lowest is next
    done: asyncio.Future[Any]
    expiry: asyncio.TimerHandle


class HashQueue:
    """The threads and what waits for them; a context manager. Use it from one event loop only."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")
        self._free = THREADS
        self._lanes: dict[Lane, list[_Job]] = {lane: [] for lane in Lane}
        self._last_lane = Lane.NEW
        self._arrivals = 0
        self._estimate = FIRST_ESTIMATE_SECONDS

    def __enter__(self) -> "HashQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    @property
    def usual_seconds(self) -> float:
        """Return how long one job takes, measured by the latest ones."""
        return self._estimate

    async def run(self, lane: Lane, work: Callable[[], Result], recent_attempts: int) -> Result:
        """Run `work` in a thread and return its result; `recent_attempts` are those of the client's network.

        Raise Unavailable, before any work, if the lane has more than two seconds of work for others that go
        first, or if the turn does not come within two seconds.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._arrivals += 1
        jobs = self._lanes[lane]
        expiry = loop.call_later(MAX_WORK_SECONDS, self._refuse, lane, done)
        jobs.append(_Job(work, (recent_attempts, -self._arrivals), done, expiry))
        self._start_jobs()
        if len(jobs) * self._estimate > MAX_WORK_SECONDS:
            self._refuse(lane, max(jobs, key=lambda job: job.rank).done)
        try:
            return await done
        finally:
            expiry.cancel()

    def _refuse(self, lane: Lane, done: asyncio.Future[Any]) -> None:
        """Refuse a job that has not begun."""
        jobs = self._lanes[lane]
        jobs[:] = [job for job in jobs if job.done is not done]
        if not done.done():
            detail = "Too many passwords are being checked at the moment."
            done.set_exception(Unavailable(detail, RETRY_SECONDS))

    def _start_jobs(self) -> None:
        while self._free and (lane := self._next_lane()) is not None:
            jobs = self._lanes[lane]
            job = min(jobs, key=lambda job: job.rank)
            jobs.remove(job)
            job.expiry.cancel()
            if job.done.cancelled():
                continue
            self._last_lane = lane
            self._free -= 1
            timed = self._threads.submit(_timed, job.work)
            asyncio.wrap_future(timed).add_done_callback(partial(self._finish, job))

    def _next_lane(self) -> Lane | None:
        """Return the lane whose turn it is among those with jobs: not the last one, if another has any."""
        waiting = [lane for lane, jobs in self._lanes.items() if jobs]
        return next((lane for lane in waiting if lane is not self._last_lane), next(iter(waiting), None))

    def _finish(self, job: _Job, ended: asyncio.Future[tuple[Any, float]]) -> None:
        """Pass on a result, learn how long the job took, and start the next ones."""
        self._free += 1
        if ended.cancelled():  # the threads are shutting down
            job.done.cancel()
            return
        error = ended.exception()
        if error is None:
            result, seconds = ended.result()
            self._estimate += (seconds - self._estimate) * WEIGHT_OF_LATEST
            self._estimate = max(self._estimate, MIN_ESTIMATE_SECONDS)
        if not job.done.done():
            if error is None:
                job.done.set_result(result)
            else:
                job.done.set_exception(error)
        self._start_jobs()


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Run `work` and return its result and how many seconds it took."""
    began = perf_counter()
    result = work()
    return result, perf_counter() - began
