"""The alarm clock: who is due, at its moment, whatever is done to the wall clock."""

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
    """An alarm clock, and when it rang for whom, in seconds of time that really passed."""

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


def test_it_rings_at_the_moment_and_once() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(10))

    bed.clock.advance(9.999)
    assert bed.rang == []
    bed.clock.advance(100)
    assert bed.rang == [(SCOUT, 10.0)]
    assert len(bed.alarms) == 0


def test_what_is_overdue_rings_at_once() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW - HOUR)

    bed.clock.advance(0)

    assert bed.rang == [(SCOUT, 0.0)]


def test_a_later_setting_replaces_the_earlier() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(5))
    bed.alarms.schedule(SCOUT, NOW + seconds(20))
    bed.alarms.schedule(OTHER, NOW + seconds(30))
    bed.alarms.schedule(OTHER, NOW + seconds(10))

    bed.clock.advance(60)

    assert bed.rang == [(OTHER, 10.0), (SCOUT, 20.0)]


def test_nobody_is_rung_who_was_forgotten() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(5))
    bed.alarms.cancel(SCOUT)

    bed.clock.advance(60)

    assert bed.rang == []


def test_closed_it_is_silent() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(5))
    bed.alarms.close()

    bed.clock.advance(60)

    assert (bed.rang, bed.clock.timers()) == ([], [])


def test_what_lies_far_ahead_is_left_to_the_due_scan() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + HORIZON + seconds(1))

    assert len(bed.alarms) == 0
    assert bed.clock.timers() == []


def test_moved_beyond_the_horizon_it_does_not_ring_at_the_former_time() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(5))
    bed.alarms.schedule(SCOUT, NOW + HOUR)

    bed.clock.advance(60)

    assert bed.rang == []


@given(st.lists(st.integers(0, 110_000), max_size=12))
def test_all_ring_in_order_each_at_its_moment(milliseconds: list[int]) -> None:
    bed = Bedside()
    for number, later in enumerate(milliseconds):
        bed.alarms.schedule(UUID(int=number), NOW + timedelta(milliseconds=later))

    bed.clock.advance(120)

    assert [at for _, at in bed.rang] == sorted(later / 1000 for later in milliseconds)
    assert {agent_id.int: at for agent_id, at in bed.rang} == {
        number: later / 1000 for number, later in enumerate(milliseconds)
    }


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=20))
def test_one_timer_stands_at_the_head(settings: list[tuple[int, int]]) -> None:
    bed = Bedside()
    for number, later in settings:
        bed.alarms.schedule(UUID(int=number), NOW + seconds(later))

    assert len(bed.clock.timers()) == (1 if settings else 0)


def test_it_compares_the_clocks_at_least_once_a_minute() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(100))

    assert bed.clock.timers() == [bed.clock.monotonic() + 60]


def test_a_wall_clock_set_forward_brings_an_alarm_nearer() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(100))
    bed.clock.advance(10)
    bed.clock.step(50)

    bed.clock.advance(110)

    assert bed.rang == [(SCOUT, 60.0)]  # at the next comparison; it was due at 50


def test_a_wall_clock_set_back_never_makes_an_alarm_early() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW + seconds(100))
    bed.clock.advance(70)
    bed.clock.step(-30)

    bed.clock.advance(59.9)
    assert bed.rang == []
    bed.clock.advance(0.1)
    assert bed.rang == [(SCOUT, 130.0)]


def test_a_hold_keeps_its_length_whatever_the_wall_clock_does() -> None:
    bed = Bedside()
    bed.hold(SCOUT, 90)
    bed.clock.advance(30)
    bed.clock.step(-3600)
    bed.hold(OTHER, 90)
    bed.clock.advance(5)
    bed.clock.step(+7200)

    bed.clock.advance(200)

    assert bed.rang == [(SCOUT, 90.0), (OTHER, 120.0)]


def test_lateness_is_noted() -> None:
    bed = Bedside()
    bed.alarms.schedule(SCOUT, NOW - seconds(2))

    bed.clock.advance(0)

    assert list(bed.alarms.lateness_seconds) == [2.0]


def test_an_alarm_set_over_and_over_rings_once_and_for_the_last_time_it_was_set() -> None:
    bed = Bedside()
    bed.alarms.schedule(OTHER, NOW + seconds(30))
    for step in range(5_000):
        bed.alarms.schedule(SCOUT, NOW + seconds(10 + step / 1000))

    bed.clock.advance(60)

    assert bed.rang == [(SCOUT, 14.999), (OTHER, 30.0)]


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_several_overdue_alarms_ring_on_a_real_loop(
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
