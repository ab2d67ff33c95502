"""A service of limited capacity, in virtual time: the control with the slots and the room for arrivals."""

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from random import Random
from uuid import UUID

import pytest

from storage.postgres.group_commit import SharedPace
from supervisors.arrival_room import ArrivalRoom
from supervisors.engine.inspection import Statistics
from supervisors.engine.run_slots import RunSlots
from supervisors.errors import ServiceBusy
from supervisors.maintenance.admission_control import AdmissionControl
from supervisors.maintenance.loop_lag import LoopLagProbe
from supervisors.policy.admission import MAX_ARRIVALS, QUEUE_SECONDS, SAMPLE_SECONDS
from tests.supervisors.held_clock import HeldClock

TICK_SECONDS = 0.01
AGENTS = 1000
SLOTS = 100
POST_SECONDS, REFUSAL_SECONDS, RUN_SECONDS = 0.0002, 0.00005, 0.0012  # of the only processor
CAPACITY = 1 / (POST_SECONDS + RUN_SECONDS)  # cycles a second
FLOOD = 3 * CAPACITY
# Cycles a second beside the refusals of all that is too much.
BEARABLE = (1 - FLOOD * REFUSAL_SECONDS) / (POST_SECONDS + RUN_SECONDS - REFUSAL_SECONDS)


def organization_of(agent: UUID) -> UUID:
    return UUID(int=5000 + agent.int % 10)


@dataclass
class LimitedService:
    """One processor that works in the order of arrival. Each agent that was notified needs a run."""

    clock: HeldClock = field(default_factory=HeldClock)
    finished: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.slots = RunSlots(SLOTS, self._start, self.clock.monotonic)
        self.arrivals = ArrivalRoom(MAX_ARRIVALS, self.clock.monotonic)
        probe = LoopLagProbe(Statistics(), self.clock)
        self.pace = SharedPace(self.clock.sleep)
        self.control = AdmissionControl(self.slots, self.arrivals, self.pace, probe, self.clock)
        self.due: set[UUID] = set()  # notified, and without a run since
        self._running: set[UUID] = set()
        self._work: deque[tuple[float, Callable[[], None]]] = deque()
        self._ahead = 0.0  # seconds of work
        self._credit = 0.0
        self._random = Random(1)  # noqa: S311 -- lots, not secrets
        self._owed = 0.0

    def let_pass(self, seconds: float, posts_per_second: float = 0.0) -> None:
        for number in range(round(seconds / TICK_SECONDS)):
            self._owed += posts_per_second * TICK_SECONDS
            while self._owed >= 1:
                self._owed -= 1
                self._post(UUID(int=1 + self._random.randrange(AGENTS)))
            self.clock.advance(TICK_SECONDS)
            self._do_work()
            if number % round(SAMPLE_SECONDS / TICK_SECONDS) == 0:
                self.control.apply(self._ahead)

    def _post(self, agent: UUID) -> None:
        place = ExitStack()
        try:
            place.enter_context(self.arrivals.take(organization_of(agent)))
        except ServiceBusy:
            self.refused += 1
            self._add(REFUSAL_SECONDS, lambda: None)
            return

        def commit() -> None:
            place.close()
            self.due.add(agent)
            if agent not in self._running:
                self._start_or_wait(agent)

        self._add(POST_SECONDS, commit)

    def _start_or_wait(self, agent: UUID) -> None:
        if self.slots.take(agent, organization_of(agent)):
            self._run(agent)
        else:
            self.slots.wait(agent, organization_of(agent), is_brief=True)

    def _start(self, agent: UUID) -> None:
        assert self.slots.take(agent, organization_of(agent))
        self._run(agent)

    def _run(self, agent: UUID) -> None:
        self._running.add(agent)
        self.due.discard(agent)

        def end() -> None:
            self._running.discard(agent)
            self.finished += 1
            self.slots.release(agent, organization_of(agent))
            if agent in self.due:
                self._start_or_wait(agent)

        self._add(RUN_SECONDS, end)

    def _add(self, seconds: float, then: Callable[[], None]) -> None:
        self._work.append((seconds, then))
        self._ahead += seconds

    def _do_work(self) -> None:
        self._credit = min(self._credit + TICK_SECONDS, TICK_SECONDS + POST_SECONDS)
        while self._work and self._work[0][0] <= self._credit:
            seconds, then = self._work.popleft()
            self._credit -= seconds
            self._ahead -= seconds
            then()


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_bearable_load_is_taken_whole(share: float) -> None:
    service = LimitedService()

    service.let_pass(20, share * CAPACITY)

    assert service.refused == 0
    assert len(service.due) < SLOTS


def test_threefold_load_finishes_nearly_all_that_is_bearable() -> None:
    service = LimitedService()
    service.let_pass(5, FLOOD)
    before = service.finished

    service.let_pass(20, FLOOD)

    assert (service.finished - before) / 20 >= 0.94 * BEARABLE
    assert service.refused > 0


def test_queue_stays_short_in_a_flood() -> None:
    service, longest = LimitedService(), 0
    service.let_pass(5, FLOOD)

    for _ in range(200):
        service.let_pass(0.1, FLOOD)
        longest = max(longest, service.slots.waiting)

    assert longest <= 2 * QUEUE_SECONDS * BEARABLE


def test_everything_due_has_started_soon_after_a_flood() -> None:
    service = LimitedService()
    service.let_pass(1.5, FLOOD)
    assert service.slots.waiting

    service.let_pass(5)

    assert not service.due
    assert (service.slots.waiting, service.slots.taken) == (0, 0)
    assert service.arrivals.per_second == inf
    assert service.slots.starting_limit > SLOTS * 0.8
