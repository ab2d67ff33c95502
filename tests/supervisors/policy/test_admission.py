"""The rule for overload: bounds, monotony, recovery, and how it settles on a service of limited capacity."""

from collections.abc import Callable
from dataclasses import astuple
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.policy.admission import (
    ARRIVAL_LAG_SECONDS,
    BACKLOG_SECONDS,
    CALM_SECONDS,
    CORRECTION_SECONDS,
    MAX_ARRIVALS,
    MAX_BURST_STARTS,
    MIN_ARRIVALS,
    MIN_ARRIVALS_PER_SECOND,
    QUEUE_SECONDS,
    SAMPLE_SECONDS,
    STALL_SECONDS,
    STANDING_SECONDS,
    START_LAG_SECONDS,
    Admission,
    Load,
    is_short_wait,
    min_starts,
    next_admission,
    wait_estimate,
)

MAX_STARTS = 100
MIN_STARTS = min_starts(MAX_STARTS)
OPEN = Admission(MAX_STARTS)
CALM = Load(0.0)
BACKLOG = Load(0.0, backlog=2 * BACKLOG_SECONDS)

seconds = st.floats(0, 30)
queues = st.integers(0, 2000)
loads = st.builds(Load, seconds, seconds, queues, seconds, st.booleans())
admissions = st.builds(
    Admission,
    st.floats(MIN_STARTS, MAX_STARTS),
    st.floats(MIN_ARRIVALS, MAX_ARRIVALS),
    seconds,
    st.floats(0, STANDING_SECONDS),
)


def after(last: Admission, load: Load, seconds: float) -> Admission:
    """Return what the rule says after it was applied for so long."""
    for _ in range(round(seconds / SAMPLE_SECONDS)):
        last = next_admission(last, load, MAX_STARTS)
    return last


@given(admissions, st.lists(loads, max_size=30))
def test_limits_stay_within_their_bounds(begin: Admission, course: list[Load]) -> None:
    admission = begin
    for load in course:
        admission = next_admission(admission, load, MAX_STARTS)
        assert MIN_STARTS <= admission.starts <= MAX_STARTS
        assert MIN_ARRIVALS <= admission.arrivals <= MAX_ARRIVALS
        assert admission.arrivals_per_second(10.0, load.queued) >= MIN_ARRIVALS_PER_SECOND


@given(admissions, loads, loads)
def test_higher_load_never_gives_higher_limits(begin: Admission, one: Load, other: Load) -> None:
    worse = Load(*map(max, astuple(one), astuple(other)))

    under_one, under_worse = (next_admission(begin, load, MAX_STARTS) for load in (one, worse))

    assert under_worse.starts <= under_one.starts
    assert under_worse.arrivals <= under_one.arrivals
    assert under_worse.arrivals_per_second(50.0, worse.queued) <= under_one.arrivals_per_second(
        50.0, one.queued
    )


@given(admissions.filter(lambda admission: admission.lag <= 1))
def test_limits_recover_within_five_seconds(begin: Admission) -> None:
    admission = after(begin, CALM, 5)

    assert (admission.starts, admission.arrivals) == (MAX_STARTS, MAX_ARRIVALS)
    assert admission.arrivals_per_second(50.0, queued=0) == inf


def test_single_late_moment_changes_little() -> None:
    admission = next_admission(OPEN, Load(START_LAG_SECONDS * 4), MAX_STARTS)

    assert admission.starts == MAX_STARTS


def test_lasting_lag_lowers_both_limits() -> None:
    admission = after(OPEN, Load(ARRIVAL_LAG_SECONDS * 1.5), 3)

    assert admission.starts < MAX_STARTS / 2
    assert admission.arrivals < MAX_ARRIVALS / 2


def test_standing_backlog_limits_the_rate_of_arrivals() -> None:
    burst = after(OPEN, BACKLOG, STANDING_SECONDS / 2)
    assert burst.arrivals_per_second(100.0, queued=0) == inf

    standing = after(OPEN, BACKLOG, STANDING_SECONDS + 1)
    assert standing.arrivals_per_second(100.0, queued=0) < inf
    assert standing.arrivals_per_second(0.0, queued=0) > 0
    assert (standing.starts, standing.arrivals) == (MAX_STARTS, MAX_ARRIVALS), "fewer starts lengthen it"

    assert after(standing, CALM, CALM_SECONDS / 2).arrivals_per_second(100.0, queued=0) < inf
    assert after(standing, CALM, CALM_SECONDS * 1.5).arrivals_per_second(100.0, queued=0) == inf


def test_arrivals_beside_a_backlog_keep_a_short_queue() -> None:
    standing = after(OPEN, BACKLOG, STANDING_SECONDS + 1)
    wanted = round(QUEUE_SECONDS * 100.0)

    assert standing.arrivals_per_second(100.0, wanted) == 100.0
    assert standing.arrivals_per_second(100.0, wanted - 6) == pytest.approx(100.0 + 6 / CORRECTION_SECONDS)
    assert standing.arrivals_per_second(100.0, wanted + 6) == pytest.approx(100.0 - 6 / CORRECTION_SECONDS)
    assert standing.arrivals_per_second(100.0, queued=1000) == MIN_ARRIVALS_PER_SECOND


@pytest.mark.parametrize("queued", [0, 20, 1000])
def test_queue_settles_while_more_arrives_than_starts(queued: int) -> None:
    standing, queue = after(OPEN, BACKLOG, STANDING_SECONDS + 1), float(queued)
    for _ in range(round(15 / SAMPLE_SECONDS)):
        queue += (standing.arrivals_per_second(100.0, round(queue)) - 100.0) * SAMPLE_SECONDS

    assert queue == pytest.approx(QUEUE_SECONDS * 100.0, abs=1)


def test_backlog_stands_while_its_rate_refuses_arrivals() -> None:
    refusing = Load(0.0, queued=1, is_refusing=True)
    assert after(OPEN, refusing, 5).arrivals_per_second(100.0, queued=1) == inf

    standing = after(after(OPEN, BACKLOG, STANDING_SECONDS + 1), refusing, 5)
    assert standing.arrivals_per_second(100.0, queued=1) < inf


@pytest.mark.parametrize("load", [CALM, Load(0.0, queued=1), Load(0.0, is_refusing=True)])
def test_backlog_is_over_without_waiting_starts_or_refusals(load: Load) -> None:
    standing = after(OPEN, BACKLOG, STANDING_SECONDS + 1)

    assert after(standing, load, CALM_SECONDS).arrivals_per_second(100.0, load.queued) == inf


def test_deep_backlog_stands_at_once() -> None:
    burst = next_admission(OPEN, Load(0.0, backlog=0.01, queued=MAX_BURST_STARTS), MAX_STARTS)
    assert burst.arrivals_per_second(100.0, MAX_BURST_STARTS) == inf

    flood = next_admission(OPEN, Load(0.0, backlog=0.01, queued=MAX_BURST_STARTS + 1), MAX_STARTS)
    assert flood.arrivals_per_second(100.0, MAX_BURST_STARTS + 1) == MIN_ARRIVALS_PER_SECOND


def test_stalled_database_lowers_only_the_limit_of_arrivals() -> None:
    admission = after(OPEN, Load(0.0, stall=STALL_SECONDS * 2), 3)

    assert admission.arrivals < MAX_ARRIVALS / 2
    assert admission.starts == MAX_STARTS


def test_single_slot_stays() -> None:
    assert next_admission(Admission(1), Load(10.0), max_starts=1).starts == 1


def settle(lag_of: Callable[[float], float], rounds: int = 800) -> list[float]:
    """Return the limits of starts over time, if the lag follows from the limit."""
    admission, course = OPEN, []
    for _ in range(rounds):
        admission = next_admission(admission, Load(lag_of(admission.starts)), MAX_STARTS)
        course.append(admission.starts)
    return course[rounds // 2 :]


@pytest.mark.parametrize("bearable", [40, 50, 70])
def test_limit_settles_near_what_the_service_bears(bearable: float) -> None:
    course = settle(lambda starts: START_LAG_SECONDS * starts / bearable)

    assert max(course) <= bearable * 1.3
    assert min(course) >= bearable * 0.4


def test_wait_is_estimated_by_the_rate_of_starts() -> None:
    assert wait_estimate(ahead=23, starts_per_second=2.0) == 12.0
    assert wait_estimate(ahead=0, starts_per_second=0.0) is None
    assert is_short_wait(1.0)
    assert not is_short_wait(60.0)
    assert not is_short_wait(None)
