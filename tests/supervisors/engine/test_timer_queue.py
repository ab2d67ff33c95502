"""The timer queue: each timer fires at its time, even if the wall clock is set."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from supervisors.clock import SystemClock
from supervisors.engine.context import HORIZON, TimerQueue
from tests.storage.factories import HOUR, NOW
from tests.supervisors.agent_facts import seconds
from tests.supervisors.held_clock import HeldClock

SCOUT, OTHER = UUID(int=1), UUID(int=2)


class Recorder:
    """A timer queue that records which timer fired when, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.fired: list[tuple[UUID, float]] = []
        self.queue = TimerQueue(self.clock, self.note)
        self._began_at = self.clock.monotonic()

    def note(self, agent_id: UUID) -> None:
        self.fired.append((agent_id, round(self.clock.monotonic() - self._began_at, 6)))


def test_timer_fires_once_at_its_time() -> None:
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW + seconds(10))

    recorder.clock.advance(9.999)
    assert recorder.fired == []
    recorder.clock.advance(100)
    assert recorder.fired == [(SCOUT, 10.0)]
    assert len(recorder.queue) == 0


def test_later_setting_replaces_the_earlier() -> None:
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW + seconds(5))
    recorder.queue.schedule(SCOUT, NOW + seconds(20))
    recorder.queue.schedule(OTHER, NOW + seconds(30))
    recorder.queue.schedule(OTHER, NOW + seconds(10))

    recorder.clock.advance(60)

    assert recorder.fired == [(OTHER, 10.0), (SCOUT, 20.0)]


def test_closed_queue_fires_nothing() -> None:
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW + seconds(5))
    recorder.queue.close()

    recorder.clock.advance(60)

    assert (recorder.fired, recorder.clock.timers()) == ([], [])


def test_timer_beyond_the_horizon_is_left_to_the_scan() -> None:
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW + HORIZON + seconds(1))

    assert len(recorder.queue) == 0
    assert recorder.clock.timers() == []


def test_timer_moved_beyond_the_horizon_does_not_fire() -> None:
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW + seconds(5))
    recorder.queue.schedule(SCOUT, NOW + HOUR)

    recorder.clock.advance(60)

    assert recorder.fired == []


@given(st.lists(st.integers(0, 110_000), max_size=12))
def test_timers_fire_in_order_at_their_times(milliseconds: list[int]) -> None:
    recorder = Recorder()
    for number, delay in enumerate(milliseconds):
        recorder.queue.schedule(UUID(int=number), NOW + timedelta(milliseconds=delay))

    recorder.clock.advance(120)

    assert [at for _, at in recorder.fired] == sorted(delay / 1000 for delay in milliseconds)
    assert {agent_id.int: at for agent_id, at in recorder.fired} == {
        number: delay / 1000 for number, delay in enumerate(milliseconds)
    }


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=20))
def test_queue_has_one_loop_timer(settings: list[tuple[int, int]]) -> None:
    recorder = Recorder()
    for number, delay in settings:
        recorder.queue.schedule(UUID(int=number), NOW + seconds(delay))

    assert len(recorder.clock.timers()) == (1 if settings else 0)


def test_clocks_are_compared_at_least_once_a_minute() -> None:
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW + seconds(100))

    assert recorder.clock.timers() == [recorder.clock.monotonic() + 60]


def test_clock_set_forward_fires_a_timer_earlier() -> None:
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW + seconds(100))
    recorder.clock.advance(10)
    recorder.clock.step(50)

    recorder.clock.advance(110)

    assert recorder.fired == [(SCOUT, 60.0)]  # at the next comparison of the clocks; it was due at 50


def test_clock_set_back_makes_no_timer_late() -> None:
    """A supervisor that is told too early sets its timer again."""
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW + seconds(100))
    recorder.clock.advance(70)
    recorder.clock.step(-30)

    recorder.clock.advance(29.9)
    assert recorder.fired == []
    recorder.clock.advance(0.1)
    assert recorder.fired == [(SCOUT, 100.0)]


def test_lateness_is_recorded() -> None:
    recorder = Recorder()
    recorder.queue.schedule(SCOUT, NOW - seconds(2))

    recorder.clock.advance(0)

    assert list(recorder.queue.lateness_seconds) == [2.0]


def test_timer_set_many_times_fires_once() -> None:
    recorder = Recorder()
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
        await asyncio.wait_for(both.wait(), timeout=5)

    run_loop(wait_for_both())
