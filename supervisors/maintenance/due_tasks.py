"""Work on rows that are due: when it is time for which kind, and tasks that do not wait for each other."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeVar
from uuid import UUID

import structlog

from storage.errors import StorageError
from supervisors.clock import Clock, first_of, wait_for_event
from supervisors.errors import TryAgainLater, log_failure

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0  # until what is new is found
RETRY_SECONDS = 10.0  # after work that could not be stored
MAX_TASKS = 128  # at once
MAX_TASKS_PER_ORGANIZATION = 16


class DueRow(Protocol):
    """A row that is due."""

    @property
    def id(self) -> UUID: ...
    @property
    def organization_id(self) -> UUID: ...


Row = TypeVar("Row", bound=DueRow)
ListDue = Callable[[Collection[UUID], Collection[UUID], int], Awaitable[Sequence[Row]]]
"""Lists rows that are due: without these ids, without those of these organizations, at most so many."""


RunOnce = Callable[[], Awaitable[object]]
GetNext = Callable[[], Awaitable[Mapping[str, datetime | None]]]


class DueLook:
    """Looks when something of each kind is due, and lets the service of that kind run then.

    `get_next` returns the moments by kind, None for a kind of which nothing is armed. `news` is set when
    something may be due earlier than the last look has seen.
    """

    def __init__(self, get_next: GetNext, news: asyncio.Event, clock: Clock) -> None:
        self._get_next = get_next
        self._news = news
        self._clock = clock
        self._due: dict[str, asyncio.Event] = {}  # of the kinds that have a service here
        self._told: dict[str, datetime] = {}  # the last moment that each kind was let run for
        self._begun: set[str] = set()  # kinds that run for a moment that no run before was for

    async def run_once(self) -> None:
        """Let run what is due, and wait until more is, for a moment at most."""
        moments, now, ahead_seconds = await self._get_next(), self._clock.now(), LOOK_SECONDS
        for kind, due in self._due.items():
            moment = moments.get(kind)
            if moment is not None and moment > now:
                ahead_seconds = min(ahead_seconds, (moment - now).total_seconds())
            elif moment is not None:
                due.set()
                if moment != self._told.get(kind):
                    self._begun.add(kind)
                self._told[kind] = moment
        await first_of(self._news.wait(), self._clock.sleep(ahead_seconds))
        self._news.clear()

    def when_due(self, kind: str, run_once: RunOnce, due: asyncio.Event | None = None) -> RunOnce:
        """Return the service of a kind, which waits until something is due. Then `due` is set."""
        due = self._due[kind] = due or asyncio.Event()

        async def run_when_due() -> None:
            await due.wait()
            due.clear()
            await run_once()
            if kind in self._begun:  # what is next may be due soon; else what is due waits for a lock
                self._begun.discard(kind)
                self._news.set()

        return run_when_due


@dataclass(slots=True, eq=False)
class DueTasks(Generic[Row]):
    """The tasks of one kind in this process. `kind` names it in the log; `due` is set when more is due."""

    kind: str
    list_due: ListDue[Row]
    work: Callable[[Row], Awaitable[None]]
    clock: Clock
    does_chores: Callable[[], bool]
    due: asyncio.Event = field(default_factory=asyncio.Event)
    _in_progress: dict[UUID, UUID] = field(default_factory=dict)  # the organization of each row

    async def run(self) -> None:
        """Work on what is due while this node does the chores, until nothing is in progress."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    await self._start_due(tasks)
                except StorageError as error:  # it must not end the tasks in progress
                    log_failure(log, f"due {self.kind} not read", error)
                if not self._in_progress:
                    return
                await wait_for_event(self.due, LOOK_SECONDS, self.clock)
                self.due.clear()

    async def _start_due(self, tasks: asyncio.TaskGroup) -> None:
        """Start as many tasks as there is room for, unless the node has lost the chores."""
        running = self._in_progress
        by_organization = Counter(running.values())
        full = [owner for owner, count in by_organization.items() if count >= MAX_TASKS_PER_ORGANIZATION]
        rows = await self.list_due(list(running), full, MAX_TASKS)
        if not self.does_chores():  # asked after the list, during which they may have been lost
            return
        for row in rows:
            owner = row.organization_id
            if len(running) < MAX_TASKS and by_organization[owner] < MAX_TASKS_PER_ORGANIZATION:
                by_organization[owner] += 1
                running[row.id] = owner
                tasks.create_task(self._do(row), name=f"{self.kind} {row.id}")

    async def _do(self, row: Row) -> None:
        try:
            await self.work(row)
        except (StorageError, TryAgainLater) as error:
            log_failure(log, f"{self.kind} not stored yet", error, id=str(row.id))
            await self.clock.sleep(RETRY_SECONDS)
        except Exception:  # the outermost edge of a task
            log.exception(f"{self.kind} crashed", id=str(row.id))
            await self.clock.sleep(RETRY_SECONDS)
        finally:
            del self._in_progress[row.id]
