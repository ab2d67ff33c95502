"""The rule for overload: bounds, monotony, recovery, and how it settles on a service of limited capacity."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.policy.admission import (
    ARRIVAL_LAG_SECONDS,
    BACKLOG_SECONDS,
    MAX_ARRIVALS,
    MIN_ARRIVALS,
    MIN_STARTS,
    SAMPLE_SECONDS,
    STALL_SECONDS,
    START_LAG_SECONDS,
    AdmissionLimits,
    Load,
    is_short_wait,
    next_limits,
    wait_estimate,
)

MAX_STARTS = 100
CALM = Load(0.0)

seconds = st.floats(0, 30)
loads = st.builds(Load, seconds, seconds, seconds)
limits = st.builds(AdmissionLimits, st.floats(MIN_STARTS, MAX_STARTS), st.floats(MIN_ARRIVALS, MAX_ARRIVALS))


@given(limits, st.lists(loads, max_size=30))
def test_limits_stay_within_their_bounds(begin: AdmissionLimits, course: list[Load]) -> None:
    moved = begin
    for load in course:
        moved = next_limits(moved, load, MAX_STARTS)
        assert MIN_STARTS <= moved.starts <= MAX_STARTS
        assert MIN_ARRIVALS <= moved.arrivals <= MAX_ARRIVALS


@given(limits, loads, loads)
def test_higher_load_never_gives_higher_limits(begin: AdmissionLimits, one: Load, other: Load) -> None:
    worse = Load(max(one.lag, other.lag), max(one.backlog, other.backlog), max(one.stall, other.stall))

    under_one, under_worse = (next_limits(begin, load, MAX_STARTS) for load in (one, worse))

    assert under_worse.starts <= under_one.starts
    assert under_worse.arrivals <= under_one.arrivals


@given(limits)
def test_limits_recover_within_three_seconds(begin: AdmissionLimits) -> None:
    moved = begin
    for _ in range(round(3 / SAMPLE_SECONDS)):
        moved = next_limits(moved, CALM, MAX_STARTS)

    assert moved == AdmissionLimits(MAX_STARTS, MAX_ARRIVALS)


@pytest.mark.parametrize(
    "load",
    [
        Load(ARRIVAL_LAG_SECONDS * 1.1),
        Load(0.0, backlog=BACKLOG_SECONDS * 1.1),
        Load(0.0, stall=STALL_SECONDS * 1.1),
    ],
)
def test_each_signal_lowers_the_limit_of_arrivals(load: Load) -> None:
    moved = next_limits(AdmissionLimits(MAX_STARTS, 100), load, MAX_STARTS)

    assert moved.arrivals < 100


def test_slow_database_leaves_the_starts_alone() -> None:
    load = Load(START_LAG_SECONDS / 4, stall=STALL_SECONDS * 10)

    assert next_limits(AdmissionLimits(50), load, MAX_STARTS).starts > 50


def test_single_slot_stays() -> None:
    assert next_limits(AdmissionLimits(1), Load(10.0), max_starts=1).starts == 1


def settle(lag_of: Callable[[float], float], rounds: int = 400) -> list[float]:
    """Return the limits of starts over time, if the lag follows from the limit."""
    moved, course = AdmissionLimits(MAX_STARTS), []
    for _ in range(rounds):
        moved = next_limits(moved, Load(lag_of(moved.starts)), MAX_STARTS)
        course.append(moved.starts)
    return course[rounds // 2 :]


@pytest.mark.parametrize("bearable", [10, 25, 60])
def test_limit_settles_near_what_the_service_bears(bearable: float) -> None:
    course = settle(lambda starts: START_LAG_SECONDS * starts / bearable)

    assert max(course) <= bearable * 1.2
    assert min(course) >= bearable * 0.4


def test_wait_is_estimated_by_the_rate_of_starts() -> None:
    assert wait_estimate(ahead=23, starts_per_second=2.0) == 12.0
    assert wait_estimate(ahead=0, starts_per_second=0.0) is None
    assert is_short_wait(1.0)
    assert not is_short_wait(60.0)
    assert not is_short_wait(None)
