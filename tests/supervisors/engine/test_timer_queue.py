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
from supervisors.engine.timer_queue import HORIZON, TimerQueue
from tests.storage.factories import HOUR, NOW
from tests.supervisors.agent_facts import seconds
from tests.supervisors.held_clock import HeldClock

SCOUT, OTHER = UUID(int=1), UUID(int=2)


class Bedside:
    """A timer queue that records which timer fired when, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.rang: list[tuple[UUID, float]] = []
        self.alarms = TimerQueue(self.clock, self.note)
        self._born = self.clock.monotonic()

    def note(self, agent_id: UUID) -> None:
        self.rang.append((agent_id, round(self.clock.monotonic() - self._born, 6)))

    def hold(self, agent_id: UUID, length: float) -> None:
        at = self.clock.now() + seconds(length)
        self.alarms.schedule(agent_id, at, monotonic_at=self.clock.monotonic() + length)


def test_timer_fires_once_at_its_time() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(10))

    bed.clock.advance(9.999)
    assert bed.rang == []
    bed.clock.advance(100)
    assert bed.rang == [(SCOUT, 10.0)]
    assert len(bed.alarms) == 0


def test_overdue_timer_fires_at_once() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW - HOUR)

    bed.clock.advance(0)

    assert bed.rang == [(SCOUT, 0.0)]


def test_later_setting_replaces_the_earlier() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(5))
    bed.alarms.schedule(SCOUT, NOW + seconds(20))
    bed.alarms.schedule(OTHER, NOW + seconds(30))
    bed.alarms.schedule(OTHER, NOW + seconds(10))

    bed.clock.advance(60)

    assert bed.rang == [(OTHER, 10.0), (SCOUT, 20.0)]


def test_cancelled_timer_does_not_fire() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(5))
    bed.alarms.cancel(SCOUT)

    bed.clock.advance(60)

    assert bed.rang == []


def test_closed_queue_fires_nothing() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(5))
    bed.alarms.close()

    bed.clock.advance(60)

    assert (bed.rang, bed.clock.timers()) == ([], [])


def test_timer_beyond_the_horizon_is_left_to_the_scan() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + HORIZON + seconds(1))

    assert len(bed.alarms) == 0
    assert bed.clock.timers() == []


def test_timer_moved_beyond_the_horizon_does_not_fire() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(5))
    bed.alarms.schedule(SCOUT, NOW + HOUR)

    bed.clock.advance(60)

    assert bed.rang == []


@given(st.lists(st.integers(0, 110_000), max_size=12))
def test_timers_fire_in_order_at_their_times(milliseconds: list[int]) -> None:
    bed = Bedside()
    for number, later in enumerate(milliseconds):
        bed.alarms.schedule(UUID(int=number), NOW + timedelta(milliseconds=later))

    bed.clock.advance(120)

    assert [at for _, at in bed.rang] == sorted(later / 1000 for later in milliseconds)
    assert {agent_id.int: at for agent_id, at in bed.rang} == {
        number: later / 1000 for number, later in enumerate(milliseconds)
    }


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=20))
def test_queue_has_one_loop_timer(settings: list[tuple[int, int]]) -> None:
    bed = Bedside()
    for number, later in settings:
        bed.alarms.schedule(UUID(int=number), NOW + seconds(later))

    assert len(bed.clock.timers()) == (1 if settings else 0)


def test_clocks_are_compared_at_least_once_a_minute() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(100))

    assert bed.clock.timers() == [bed.clock.monotonic() + 60]


def test_clock_set_forward_fires_a_timer_earlier() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(100))
    bed.clock.advance(10)
    bed.clock.step(50)

    bed.clock.advance(110)

    assert bed.rang == [(SCOUT, 60.0)]  # at the next comparison of the clocks; it was due at 50


def test_clock_set_back_makes_no_timer_early() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(100))
    bed.clock.advance(70)
    bed.clock.step(-30)

    bed.clock.advance(59.9)
    assert bed.rang == []
    bed.clock.advance(0.1)
    assert bed.rang == [(SCOUT, 130.0)]


def test_hold_keeps_its_length_when_the_clock_is_set() -> None:
    bed = Bedside()
    bed.hold(SCOUT, 90)
    bed.clock.advance(30)
    bed.clock.step(-3600)
    bed.hold(OTHER, 90)
    bed.clock.advance(5)
    bed.clock.step(+7200)

    bed.clock.advance(200)

    assert bed.rang == [(SCOUT, 90.0), (OTHER, 120.0)]


def test_lateness_is_recorded() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW - seconds(2))

    bed.clock.advance(0)

    assert list(bed.alarms.lateness_seconds) == [2.0]


def test_timer_set_many_times_fires_once() -> None:
    bed = Bedside()
    bed.alarms.schedule(OTHER, NOW + seconds(30))
    for step in range(5_000):
        bed.alarms.schedule(SCOUT, NOW + seconds(10 + step / 1000))

    bed.clock.advance(60)

    assert bed.rang == [(SCOUT, 14.999), (OTHER, 30.0)]


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_overdue_timers_fire_on_a_real_loop(
    run_loop: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def let_them_ring() -> None:
        clock, rang, both = SystemClock(), set[UUID](), asyncio.Event()

        def note(agent_id: UUID) -> None:
            rang.add(agent_id)
            if rang == {SCOUT, OTHER}:
                both.set()

        alarms = TimerQueue(clock, note)
        for agent_id in (SCOUT, OTHER):
            alarms.schedule(agent_id, clock.now() - HOUR)
        await asyncio.wait_for(both.wait(), timeout=5)

    run_loop(let_them_ring())
