"""The admission control applies the rule to the slots and the arrivals, and logs an overload."""

import asyncio
from contextlib import ExitStack, suppress
from math import inf
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from storage.postgres.group_commit import SharedPace
from supervisors.arrival_room import ArrivalRoom
from supervisors.engine.inspection import Statistics
from supervisors.engine.run_slots import STARTING_SECONDS, RunSlots
from supervisors.errors import ServiceBusy
from supervisors.maintenance.admission_control import QUIET_SECONDS, REPORT_SECONDS, AdmissionControl
from supervisors.maintenance.loop_lag import LoopLagProbe
from supervisors.policy.admission import (
    MAX_ARRIVALS,
    MAX_BURST_STARTS,
    MIN_ARRIVALS,
    SAMPLE_SECONDS,
    STANDING_SECONDS,
    min_starts,
)
from tests.supervisors.held_clock import HeldClock

US = UUID(int=1)
MAX_STARTS = 40
HIGH_LAG = 0.2


class Service:
    """The parts of a service that the control reads and moves."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.slots = RunSlots(MAX_STARTS, lambda _: None, self.clock.monotonic)
        self.arrivals = ArrivalRoom(MAX_ARRIVALS, self.clock.monotonic)
        self.statistics = Statistics()
        probe = LoopLagProbe(self.statistics, self.clock)
        self.pace = SharedPace(self.clock.sleep)
        self.control = AdmissionControl(self.slots, self.arrivals, self.pace, probe, self.clock)

    def let_pass(self, seconds: float, lag: float = 0.0, starts_a_second: float = 0) -> None:
        for _ in range(round(seconds / SAMPLE_SECONDS)):
            self.clock.advance(SAMPLE_SECONDS)
            self.slots.started += round(starts_a_second * SAMPLE_SECONDS)
            self.control.apply(lag)


def test_limits_shrink_under_lag_and_recover() -> None:
    service = Service()
    service.let_pass(2, HIGH_LAG)
    assert service.slots.starting_limit == min_starts(36)
    assert service.arrivals.limit == MIN_ARRIVALS

    service.let_pass(5)

    assert service.slots.starting_limit == 36, "a tenth is kept free"
    assert service.arrivals.limit == MAX_ARRIVALS


def test_rate_of_starts_is_the_mean_of_the_last_seconds() -> None:
    service = Service()
    service.let_pass(3, starts_a_second=40)
    assert service.slots.starts_per_second == pytest.approx(40)

    service.let_pass(10)

    assert service.slots.starts_per_second == 0


def test_starts_that_wait_for_slow_runs_refuse_no_arrival() -> None:
    service = Service()
    for number in range(MAX_STARTS):
        service.slots.take(UUID(int=100 + number), US)
    service.let_pass(2 * STARTING_SECONDS)
    for number in range(2 * MAX_BURST_STARTS):
        service.slots.wait(UUID(int=1000 + number), US)

    service.let_pass(60)

    assert service.arrivals.limit == MAX_ARRIVALS
    assert service.arrivals.per_second == inf


@pytest.mark.parametrize(("waiting", "is_limited"), [(MAX_BURST_STARTS, False), (MAX_BURST_STARTS + 1, True)])
def test_many_starts_in_line_limit_the_rate_of_arrivals(*, waiting: int, is_limited: bool) -> None:
    service = Service()
    for number in range(MAX_STARTS):
        service.slots.take(UUID(int=100 + number), US)
    for number in range(waiting):
        service.slots.wait(UUID(int=1000 + number), US)

    service.let_pass(2 * SAMPLE_SECONDS)

    assert (service.arrivals.per_second < inf) == is_limited


def test_backlog_limits_the_rate_of_arrivals() -> None:
    service = Service()
    for number in range(MAX_STARTS):
        service.slots.take(UUID(int=100 + number), US)
    service.slots.wait(UUID(int=1), US)

    service.let_pass(STARTING_SECONDS - SAMPLE_SECONDS)
    assert service.arrivals.per_second == inf
    for number in range(MAX_STARTS):
        service.slots.release(UUID(int=100 + number), US)
        service.slots.take(UUID(int=200 + number), US)
        service.slots.wait(UUID(int=300 + number), US)
    service.let_pass(STARTING_SECONDS - SAMPLE_SECONDS, starts_a_second=200)

    assert 0 < service.arrivals.per_second < inf


@pytest.mark.parametrize("waiting", [0, 1])
def test_runs_give_way_to_requests_unless_starts_wait(waiting: int) -> None:
    service = Service()
    for number in range(MAX_STARTS):
        service.slots.take(UUID(int=100 + number), US)
    for number in range(waiting):
        service.slots.wait(UUID(int=1000 + number), US)

    service.let_pass(2 * SAMPLE_SECONDS)

    assert service.pace.gives_way == (waiting == 0)


@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize("is_refusing", [True, False])
def test_rate_lasts_while_it_refuses_and_starts_wait(*, is_refusing: bool, is_waiting: bool) -> None:
    service = Service()
    for number in range(MAX_STARTS):
        service.slots.take(UUID(int=100 + number), US)
    for number in range(MAX_BURST_STARTS + 1):
        service.slots.wait(UUID(int=1000 + number), US)
    service.let_pass(2 * SAMPLE_SECONDS)
    for number in range(MAX_BURST_STARTS + 1):
        service.slots.leave(UUID(int=1000 + number))
    for number in range(MAX_STARTS):
        service.slots.release(UUID(int=100 + number), US)

    for _ in range(round(2 * STANDING_SECONDS / SAMPLE_SECONDS)):
        for number in range(MAX_STARTS):
            service.slots.take(UUID(int=100 + number), US)
        if is_waiting:
            service.slots.wait(UUID(int=1000), US)
        if is_refusing:
            flood(service)
        service.let_pass(SAMPLE_SECONDS)
        service.slots.leave(UUID(int=1000))
        for number in range(MAX_STARTS):
            service.slots.release(UUID(int=100 + number), US)

    assert (service.arrivals.per_second < inf) == (is_refusing and is_waiting)


def flood(service: Service) -> None:
    """Let requests come until one is refused, and leave again."""
    with ExitStack() as places, suppress(ServiceBusy):
        while True:
            places.enter_context(service.arrivals.take(US))


def refuse(service: Service) -> None:
    """Let a request come for which there is no place."""
    with suppress(ServiceBusy):
        service.arrivals.require(US)


def test_overload_is_logged_when_it_begins_and_ends() -> None:
    service = Service()
    with capture_logs() as lines, ExitStack() as places:
        service.let_pass(1)
        assert lines == []
        for _ in range(MIN_ARRIVALS):
            places.enter_context(service.arrivals.take(US))
        service.let_pass(5, HIGH_LAG)
        refuse(service)
        refuse(service)
        service.let_pass(1, HIGH_LAG)
        places.close()
        service.let_pass(QUIET_SECONDS)

    assert [line["event"] for line in lines] == ["the service is busy", "the service is no longer busy"]
    assert (lines[0]["refused"], lines[1]["refused"]) == (2, 2)


def test_lasting_overload_is_logged_each_minute() -> None:
    service = Service()
    with capture_logs() as lines, ExitStack() as places:
        for _ in range(MIN_ARRIVALS):
            places.enter_context(service.arrivals.take(US))
        service.let_pass(5, HIGH_LAG)
        for _ in range(round(2.5 * REPORT_SECONDS)):
            refuse(service)
            service.let_pass(1, HIGH_LAG)

    assert [line["event"] for line in lines] == ["the service is busy"] * 3


async def test_probe_is_applied() -> None:
    service = Service()
    probing = asyncio.create_task(service.control.run_once())
    await asyncio.sleep(0)
    service.clock.advance(SAMPLE_SECONDS)
    await probing

    assert len(service.statistics.loop_lag_seconds) == 1
