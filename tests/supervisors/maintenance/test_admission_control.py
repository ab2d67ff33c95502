"""The admission control applies the rule to the slots and the arrivals, and logs an overload."""

from contextlib import ExitStack
from typing import cast
from uuid import UUID

from structlog.testing import capture_logs

from supervisors.arrival_room import ArrivalRoom
from supervisors.engine.inspection import Statistics
from supervisors.engine.registry import Registry
from supervisors.engine.run_slots import RunSlots
from supervisors.errors import ServiceBusy
from supervisors.maintenance.admission_control import QUIET_SECONDS, REPORT_SECONDS, AdmissionControl
from supervisors.maintenance.loop_lag import LoopLagProbe
from supervisors.policy.admission import MAX_ARRIVALS, MIN_STARTS, SAMPLE_SECONDS
from tests.supervisors.held_clock import HeldClock

US, THEM = UUID(int=1), UUID(int=2)
MAX_STARTS = 40
HIGH_LAG = 0.2


class Service:
    """The parts of a registry that the control reads and moves."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.slots = RunSlots(MAX_STARTS, lambda _: None, self.clock.monotonic)
        self.arrivals = ArrivalRoom(MAX_ARRIVALS, self.clock.monotonic)
        self.statistics = Statistics()
        self.starts_per_second = 0.0
        registry = cast(Registry, self)
        self.control = AdmissionControl(registry, LoopLagProbe(self.statistics, self.clock), self.clock)

    def set_pace(self, starting_limit: int, starts_per_second: float) -> None:
        self.slots.set_starting_limit(starting_limit)
        self.starts_per_second = starts_per_second

    def let_pass(self, seconds: float, lag: float = 0.0, starts_a_second: float = 0) -> None:
        for _ in range(round(seconds / SAMPLE_SECONDS)):
            self.clock.advance(SAMPLE_SECONDS)
            self.statistics.started_runs += round(starts_a_second * SAMPLE_SECONDS)
            self.control.apply(lag)


def test_limits_shrink_under_lag_and_recover() -> None:
    service = Service()
    service.let_pass(2, HIGH_LAG)
    assert service.slots.starting_limit == MIN_STARTS
    assert service.arrivals.limit < MAX_ARRIVALS / 10

    service.let_pass(5)

    assert service.slots.starting_limit == 36, "a tenth is kept free"
    assert service.arrivals.limit == MAX_ARRIVALS


def test_rate_of_starts_is_the_mean_of_the_last_seconds() -> None:
    service = Service()
    service.let_pass(3, starts_a_second=40)
    assert service.starts_per_second == 40

    service.let_pass(10)

    assert service.starts_per_second == 0


def test_starts_that_wait_for_slow_runs_refuse_no_arrival() -> None:
    service = Service()
    for number in range(MAX_STARTS):
        service.slots.take(UUID(int=100 + number), US)
    service.slots.wait(UUID(int=1), US)

    service.let_pass(60)

    assert service.arrivals.limit == MAX_ARRIVALS


def test_overload_is_logged_when_it_begins_goes_on_and_ends() -> None:
    service = Service()
    with capture_logs() as lines, ExitStack() as places:
        service.let_pass(1)
        assert lines == []
        service.arrivals.limit = 2
        places.enter_context(service.arrivals.take(US))
        for _ in range(2):
            try:
                service.arrivals.require(US)
            except ServiceBusy:
                continue
        service.let_pass(1, HIGH_LAG)
        places.close()
        service.let_pass(QUIET_SECONDS)

    assert [line["event"] for line in lines] == ["the service is busy", "the service is no longer busy"]
    assert (lines[0]["refused"], lines[1]["refused"]) == (2, 2)


def test_lasting_overload_is_logged_each_minute() -> None:
    service = Service()
    with capture_logs() as lines:
        service.slots.wait(UUID(int=3), THEM)
        for second in range(round(2 * REPORT_SECONDS)):
            for number in range(MIN_STARTS):
                agent_id = UUID(int=1000 * second + number)
                if service.slots.take(agent_id, US):
                    service.slots.release(agent_id, US)
            service.slots.take(UUID(int=500_000 + second), US)
            service.slots.wait(UUID(int=600_000 + second), US)
            service.let_pass(1, HIGH_LAG)

    events = [line["event"] for line in lines]
    assert events[0] == "the service is busy"
    assert 1 <= events.count("the service is still busy") <= 2


async def test_probe_is_applied() -> None:
    service = Service()

    await service.control.run_once()

    assert len(service.statistics.loop_lag_seconds) == 1
