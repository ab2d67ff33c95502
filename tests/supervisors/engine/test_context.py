"""What supervisors share: timers that fire at their time, whatever the clock does, and run slots in turn."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from supervisors.clock import SystemClock
from supervisors.engine.context import HORIZON, RunSlots, TimerQueue
from tests.patience import PATIENCE_SECONDS
from tests.storage.factories import HOUR, NOW
from tests.supervisors.agent_facts import seconds
from tests.supervisors.held_clock import HeldClock

SCOUT, OTHER = UUID(int=1), UUID(int=2)


class FiredTimers:
    """A timer queue that records which timer fired when, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.fired: list[tuple[UUID, float]] = []
        self.queue = TimerQueue(self.clock, self.note)
        self._began_at = self.clock.monotonic()

    def note(self, agent_id: UUID) -> None:
        self.fired.append((agent_id, round(self.clock.monotonic() - self._began_at, 6)))


def test_timer_fires_once_at_its_time() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW + seconds(10))

    recorder.clock.advance(9.999)
    assert recorder.fired == []
    recorder.clock.advance(100)
    assert recorder.fired == [(SCOUT, 10.0)]
    assert len(recorder.queue) == 0


def test_later_setting_replaces_the_earlier() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW + seconds(5))
    recorder.queue.schedule(SCOUT, NOW + seconds(20))
    recorder.queue.schedule(OTHER, NOW + seconds(30))
    recorder.queue.schedule(OTHER, NOW + seconds(10))

    recorder.clock.advance(60)

    assert recorder.fired == [(OTHER, 10.0), (SCOUT, 20.0)]


def test_closed_queue_fires_nothing() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW + seconds(5))
    recorder.queue.close()

    recorder.clock.advance(60)

    assert (recorder.fired, recorder.clock.timers()) == ([], [])


def test_timer_beyond_the_horizon_is_left_to_the_scan() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW + HORIZON + seconds(1))

    assert len(recorder.queue) == 0
    assert recorder.clock.timers() == []


def test_timer_moved_beyond_the_horizon_does_not_fire() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW + seconds(5))
    recorder.queue.schedule(SCOUT, NOW + HOUR)

    recorder.clock.advance(60)

    assert recorder.fired == []


@given(st.lists(st.integers(0, 110_000), max_size=12))
def test_timers_fire_in_order_at_their_times(milliseconds: list[int]) -> None:
    recorder = FiredTimers()
    for number, delay in enumerate(milliseconds):
        recorder.queue.schedule(UUID(int=number), NOW + timedelta(milliseconds=delay))

    recorder.clock.advance(120)

    assert [at for _, at in recorder.fired] == sorted(delay / 1000 for delay in milliseconds)
    assert {agent_id.int: at for agent_id, at in recorder.fired} == {
        number: delay / 1000 for number, delay in enumerate(milliseconds)
    }


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=20))
def test_queue_has_one_loop_timer(settings: list[tuple[int, int]]) -> None:
    recorder = FiredTimers()
    for number, delay in settings:
        recorder.queue.schedule(UUID(int=number), NOW + seconds(delay))

    assert len(recorder.clock.timers()) == (1 if settings else 0)


def test_clocks_are_compared_at_least_once_a_minute() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW + seconds(100))

    assert recorder.clock.timers() == [recorder.clock.monotonic() + 60]


def test_clock_set_forward_fires_a_timer_earlier() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW + seconds(100))
    recorder.clock.advance(10)
    recorder.clock.step(50)

    recorder.clock.advance(110)

    assert recorder.fired == [(SCOUT, 60.0)]  # at the next comparison of the clocks; it was due at 50


def test_clock_set_back_makes_no_timer_late() -> None:
    """A supervisor that is told too early sets its timer again."""
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW + seconds(100))
    recorder.clock.advance(70)
    recorder.clock.step(-30)

    recorder.clock.advance(29.9)
    assert recorder.fired == []
    recorder.clock.advance(0.1)
    assert recorder.fired == [(SCOUT, 100.0)]


def test_lateness_is_recorded() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(SCOUT, NOW - seconds(2))

    recorder.clock.advance(0)

    assert list(recorder.queue.lateness_seconds) == [2.0]


def test_timer_set_many_times_fires_once() -> None:
    recorder = FiredTimers()
    recorder.queue.schedule(OTHER, NOW + seconds(30))
    for step in range(5_000):
        recorder.queue.schedule(SCOUT, NOW + seconds(10 + step / 1000))

    recorder.clock.advance(60)

    assert recorder.fired == [(SCOUT, 14.999), (OTHER, 30.0)]


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_overdue_timers_fire_on_a_real_loop(run_loop: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def wait_for_both() -> None:
        clock, fired, both = SystemClock(), set[UUID](), asyncio.Event()

        def note(agent_id: UUID) -> None:
            fired.add(agent_id)
            if fired == {SCOUT, OTHER}:
                both.set()

        queue = TimerQueue(clock, note)
        for agent_id in (SCOUT, OTHER):
            queue.schedule(agent_id, clock.now() - HOUR)
        await asyncio.wait_for(both.wait(), timeout=PATIENCE_SECONDS)

    run_loop(wait_for_both())


agents = st.integers(1, 6).map(lambda number: UUID(int=number))


def organization_of(agent_id: UUID) -> UUID:
    return UUID(int=100 + agent_id.int % 3)


class CalledAgents:
    """Run slots that record which agents they called."""

    def __init__(self, limit: int, organization_limit: int = 0) -> None:
        self.called: list[UUID] = []
        self.slots = RunSlots(limit, self.called.append, organization_limit)

    def wait(self, agent: int, organization: int) -> None:
        self.slots.wait(UUID(int=agent), UUID(int=100 + organization))

    def take(self, agent: int, organization: int = 9) -> bool:
        return self.slots.take(UUID(int=agent), UUID(int=100 + organization))

    def release(self, organization: int = 9) -> None:
        self.slots.release(UUID(int=100 + organization))

    def leave(self, agent: int) -> None:
        self.slots.leave(UUID(int=agent))

    def call_next(self) -> int:
        """Release a slot, let the called agent take it for the same organization, and return its number."""
        self.release()
        agent_id = self.called[-1]
        assert self.take(agent_id.int)
        return agent_id.int


def test_slots_go_to_organizations_in_turn() -> None:
    recorder = CalledAgents(limit=1)
    recorder.take(9)
    for agent in (11, 12, 13, 14):
        recorder.wait(agent, organization=1)
    for agent in (21, 22):
        recorder.wait(agent, organization=2)

    assert [recorder.call_next() for _ in range(6)] == [11, 21, 12, 22, 13, 14]


def test_reserved_slot_is_taken_only_by_its_agent() -> None:
    recorder = CalledAgents(limit=1)
    recorder.take(9)
    recorder.wait(1, organization=1)
    recorder.release()

    assert recorder.called == [UUID(int=1)]
    assert not recorder.slots.has_room(UUID(int=101))
    assert not recorder.take(2)
    assert recorder.take(1)


def test_reserved_slot_counts_as_untaken_not_as_free() -> None:
    recorder = CalledAgents(limit=2)
    recorder.take(9)
    recorder.take(8)
    recorder.wait(1, organization=1)
    recorder.release()
    assert (recorder.slots.free, recorder.slots.untaken) == (0, 1)


def test_slot_that_is_given_up_goes_to_the_next() -> None:
    recorder = CalledAgents(limit=1)
    recorder.take(9)
    recorder.wait(1, organization=1)
    recorder.wait(2, organization=2)
    recorder.release()

    recorder.leave(1)

    assert recorder.called == [UUID(int=1), UUID(int=2)]
    assert recorder.take(2)


def test_agent_that_waits_twice_is_called_once() -> None:
    recorder = CalledAgents(limit=1)
    recorder.take(9)
    for agent in (1, 2, 1):
        recorder.wait(agent, organization=1)

    assert recorder.slots.waiting == 2
    assert [recorder.call_next(), recorder.call_next()] == [1, 2]
    assert recorder.slots.waiting == 0


def test_organization_at_its_limit_is_passed_by_others() -> None:
    recorder = CalledAgents(limit=4, organization_limit=2)
    assert [recorder.take(agent, organization=1) for agent in (11, 12, 13)] == [True, True, False]
    for agent in (13, 14):
        recorder.wait(agent, organization=1)
    recorder.wait(21, organization=2)

    assert recorder.called == [UUID(int=21)]
    assert recorder.slots.is_at_limit(UUID(int=101))
    assert recorder.slots.has_room(UUID(int=102))

    recorder.release(organization=1)
    assert recorder.called == [UUID(int=21), UUID(int=13)]
    recorder.leave(13)
    assert recorder.called == [UUID(int=21), UUID(int=13), UUID(int=14)]


def test_agent_of_held_organization_may_leave_the_queue() -> None:
    recorder = CalledAgents(limit=4, organization_limit=1)
    recorder.take(11, organization=1)
    for agent in (12, 13):
        recorder.wait(agent, organization=1)
    recorder.leave(12)
    recorder.release(organization=1)

    assert recorder.called == [UUID(int=13)]
    assert recorder.slots.waiting == 0


def test_slot_is_passed_on_to_an_agent_that_waits_elsewhere() -> None:
    recorder = CalledAgents(limit=1, organization_limit=1)
    recorder.take(11, organization=1)
    recorder.wait(12, organization=1)
    recorder.slots.pass_on(UUID(int=21), UUID(int=101))

    assert recorder.called == [UUID(int=21)]
    assert recorder.slots.is_reserved(UUID(int=21))
    recorder.leave(21)
    assert recorder.called == [UUID(int=21), UUID(int=12)]


class AnyUse(RuleBasedStateMachine):
    """Check that no slot is lost or invented, and that no agent waits beside a slot that it may have."""

    organization_limit = 0

    def __init__(self) -> None:
        super().__init__()
        self.reserved: set[UUID] = set()
        self.running: list[UUID] = []
        self.waiting: set[UUID] = set()
        self.passed_to: UUID | None = None
        self.slots = RunSlots(3, self.reserve, self.organization_limit)

    def reserve(self, agent_id: UUID) -> None:
        assert agent_id in {*self.waiting, self.passed_to}
        self.waiting.discard(agent_id)
        self.reserved.add(agent_id)

    @rule(agent_id=agents)
    def take(self, agent_id: UUID) -> None:
        if agent_id in self.running:
            return
        had_one = agent_id in self.reserved
        if self.slots.take(agent_id, organization_of(agent_id)):
            self.reserved.discard(agent_id)
            self.waiting.discard(agent_id)
            self.running.append(agent_id)
        else:
            assert not had_one

    @rule(agent_id=agents)
    def wait(self, agent_id: UUID) -> None:
        if agent_id not in self.running and agent_id not in self.reserved:
            self.waiting.add(agent_id)
            self.slots.wait(agent_id, organization_of(agent_id))

    @rule(agent_id=agents)
    def leave(self, agent_id: UUID) -> None:
        self.reserved.discard(agent_id)
        self.waiting.discard(agent_id)
        self.slots.leave(agent_id)

    @precondition(lambda self: self.running)
    @rule()
    def end(self) -> None:
        agent_id = self.running.pop(0)
        self.slots.release(organization_of(agent_id))

    @precondition(lambda self: self.running)
    @rule(agent_id=agents)
    def pass_on(self, agent_id: UUID) -> None:
        organization_id = organization_of(self.running[0])
        if organization_of(agent_id) == organization_id and agent_id not in self.running:
            del self.running[0]
            self.passed_to = agent_id
            self.slots.pass_on(agent_id, organization_id)
            self.passed_to = None

    @invariant()
    def no_slot_is_lost(self) -> None:
        used = len(self.running) + len(self.reserved)
        assert used <= self.slots.limit
        assert (self.slots.taken, self.slots.waiting) == (len(self.running), len(self.waiting))
        in_use = Counter(map(organization_of, [*self.running, *self.reserved]))
        for organization_id in (UUID(int=number) for number in range(100, 103)):
            assert self.slots.in_use(organization_id) == in_use[organization_id]
            has_share = not self.organization_limit or in_use[organization_id] < self.organization_limit
            assert self.slots.has_room(organization_id) == (used < self.slots.limit and has_share)

    @invariant()
    def nobody_waits_beside_a_free_slot(self) -> None:
        assert not any(self.slots.has_room(organization_of(agent_id)) for agent_id in self.waiting)


class AnyUseWithShares(AnyUse):
    organization_limit = 1


for machine in (AnyUse, AnyUseWithShares):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyUse = AnyUse.TestCase
TestAnyUseWithShares = AnyUseWithShares.TestCase
