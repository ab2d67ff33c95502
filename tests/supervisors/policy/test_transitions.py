"""State transitions of an agent, by example and by property."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.agent_facts import ActivationPeriod, AgentFacts, AgentState
from storage.model import AgentStatus, Outcome, Source
from supervisors.policy import transitions
from supervisors.policy.decisions import WakeReason, decide
from supervisors.policy.phases import Phase
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND
from tests.supervisors.agent_facts import (
    POLICY,
    RUN,
    any_moment,
    facts,
    reminder,
    running,
    seconds,
    some_facts,
    state,
    waiting,
)

moments = st.datetimes(timezones=st.just(UTC))


@given(st.none() | moments, st.none() | moments)
def test_clamped_sleep_never_exceeds_the_cap(until: datetime | None, cap: datetime | None) -> None:
    """Invariant I4."""
    clamped = transitions.clamp(until, cap)

    assert cap is None or (clamped is not None and clamped <= cap)
    assert clamped in {until, cap}


@given(moments, st.none() | st.integers(0, 2**31 - 1))
def test_cap_beyond_the_year_9999_is_none(moment: datetime, hours: int | None) -> None:
    cap = transitions.cap_after(moment, hours)

    if cap is not None:
        assert cap == moment + timedelta(hours=hours or 0)
    else:
        assert hours is None or (datetime.max.replace(tzinfo=UTC) - moment) < timedelta(hours=hours)


def test_clamp_takes_none_for_sleep_without_end() -> None:
    assert transitions.clamp(None, NOW) == NOW
    assert transitions.clamp(None, None) is None
    assert transitions.clamp(NOW, None) == NOW


def test_start_fixes_the_cap_and_clears_its_causes() -> None:
    before = state(
        sleep_until=NOW + HOUR,
        stopped_at=NOW - HOUR,
        run_requested_at=NOW,
        queued_at=NOW,
        retry_at=NOW,
        retry_reason=WakeReason.RETRY_AFTER_FAILURE,
        failures=3,
        retries=4,
        next_due_at=NOW,
    )

    after = transitions.started(facts(before, max_sleep_hours=2), RUN, "run_requested", NOW)

    assert after == state(
        status=AgentStatus.RUNNING,
        run_id=RUN,
        run_started_at=NOW,
        last_started_at=NOW,
        last_wake_reason="run_requested",
        last_wake_interrupted_sleep_until=NOW + HOUR,
        max_sleep_until=NOW + 2 * HOUR,
        failures=3,
        retries=4,
    )


def test_elapsed_sleep_is_not_recorded_as_interrupted() -> None:
    slept_out = facts(state(sleep_until=NOW))

    assert transitions.started(slept_out, RUN, "sleep_elapsed", NOW).last_wake_interrupted_sleep_until is None


def test_granted_sleep_is_clamped_and_resets_failures() -> None:
    before = running(max_sleep_until=NOW + HOUR, failures=4, retries=7, last_error="failed")

    after = transitions.slept(facts(before), NOW + 2 * HOUR, NOW)

    assert (after.status, after.run_id, after.run_started_at) == (AgentStatus.SLEEPING, None, None)
    assert (after.sleep_until, after.last_ended_at) == (NOW + HOUR, NOW)
    assert (after.failures, after.retries, after.last_error) == (0, 0, "")


def ended(
    seen: AgentFacts, outcome: Outcome = Outcome.ENDED, error: str = "", *, counts: bool = True
) -> AgentState:
    return transitions.ended(seen, outcome, error, NOW, counts=counts, jitter=0)


@pytest.mark.parametrize(
    ("interrupted", "patched", "cap", "expected"),
    [
        (None, None, None, None),
        (NOW + HOUR, None, None, NOW + HOUR),
        (NOW - HOUR, None, None, None),
        (NOW + HOUR, NOW + MINUTE, None, NOW + MINUTE),
        (NOW + HOUR, None, NOW + SECOND, NOW + SECOND),
        (None, NOW - MINUTE, NOW + HOUR, NOW - MINUTE),
    ],
)
def test_run_without_sleep_call_sleeps_until_the_earliest_moment(
    interrupted: datetime | None, patched: datetime | None, cap: datetime | None, expected: datetime | None
) -> None:
    before = running(sleep_until=patched, max_sleep_until=cap)

    assert ended(facts(before, interrupted_sleep_until=interrupted)).sleep_until == expected


def test_run_that_leaves_nothing_uncleared_resets_the_backoff() -> None:
    after = ended(facts(running(failures=3, retries=9, last_error="failed")))

    assert (after.failures, after.retries, after.retry_at, after.last_error) == (0, 0, None, "")


def test_backoff_doubles_while_nothing_is_cleared() -> None:
    left = facts(running(retries=3), waiting(period=ActivationPeriod.BEFORE, count=2), pending_at_start=2)

    after = ended(left)

    assert (after.retries, after.retry_at) == (4, NOW + seconds(8))
    assert after.retry_reason == WakeReason.UNCLEARED_NOTIFICATIONS


def test_backoff_starts_over_once_something_was_cleared() -> None:
    before = running(retries=8, failures=4, last_error="it left one uncleared")
    left = facts(before, waiting(period=ActivationPeriod.BEFORE, count=1), pending_at_start=2)

    after = ended(left)

    assert (after.retries, after.retry_at) == (1, NOW + seconds(1))
    assert (after.failures, after.last_error) == (0, "")


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (Outcome.ENDED, "ended without an error, but left"),
        (Outcome.TURN_LIMIT, "was ended by its turn limit, and left"),
    ],
)
def test_fifth_run_that_clears_nothing_begins_a_quarantine(outcome: Outcome, ending: str) -> None:
    uncleared = waiting(period=ActivationPeriod.BEFORE, count=2)
    before = running(failures=4, retries=4)

    after = ended(facts(before, uncleared, pending_at_start=2), outcome)

    assert (after.failures, after.retries, after.retry_at) == (5, 5, NOW + 15 * MINUTE)
    assert after.retry_reason == WakeReason.UNCLEARED_NOTIFICATIONS
    assert after.last_error == f"its run {ending} 2 high-priority notifications uncleared"
    assert decide(facts(after, uncleared), NOW, POLICY).phase is Phase.QUARANTINED
    assert transitions.is_newly_quarantined(before, after)


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.BUDGET])
def test_run_ended_from_outside_counts_as_no_failure(outcome: Outcome) -> None:
    uncleared = waiting(period=ActivationPeriod.BEFORE)

    after = ended(facts(running(failures=4), uncleared, pending_at_start=1), outcome, counts=False)

    assert (after.failures, after.retry_at) == (0, NOW + seconds(1))


def test_cap_that_refuses_a_model_counts_as_a_failure() -> None:
    after = ended(facts(running(failures=4)), Outcome.BUDGET, "its price is not known")

    assert (after.failures, after.last_error) == (5, "its price is not known")
    assert (after.retry_at, after.retry_reason) == (NOW + 15 * MINUTE, WakeReason.RETRY_AFTER_FAILURE)


@pytest.mark.parametrize(
    ("reason", "failures"),
    [("", 0), (WakeReason.UNCLEARED_NOTIFICATIONS, 0), (WakeReason.RETRY_AFTER_FAILURE, 4)],
)
def test_clearing_by_others_forgets_uncleared_runs_but_no_errors(reason: str, failures: int) -> None:
    before = state(failures=4, retries=4, left_over=2, retry_reason=reason)
    seen = facts(before, waiting(period=ActivationPeriod.BEFORE, count=1))

    after = transitions.started(seen, RUN, "run_requested", NOW)

    assert (after.failures, after.retries) == (failures, 0)


def test_backoff_doubles_from_a_second_to_five_minutes() -> None:
    lengths = [transitions.backoff(retries).total_seconds() for retries in range(1, 13)]

    assert lengths == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert transitions.backoff(10**6).total_seconds() == 300


def test_quarantine_doubles_from_fifteen_minutes_to_six_hours() -> None:
    lengths = [transitions.quarantine(failures) for failures in range(5, 12)]

    assert lengths == [15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR, 6 * HOUR]
    assert transitions.quarantine(10**6) == 6 * HOUR


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.FAILED, WakeReason.RETRY_AFTER_FAILURE),
        (Outcome.TIMED_OUT, WakeReason.RETRY_AFTER_FAILURE),
        (Outcome.INTERRUPTED, WakeReason.RESTART_RECOVERY),
    ],
)
def test_failure_is_counted_and_retried(outcome: Outcome, reason: WakeReason) -> None:
    after = ended(facts(running()), outcome, "it broke")

    assert (after.failures, after.retries, after.last_error) == (1, 1, "it broke")
    assert (after.retry_at, after.retry_reason) == (NOW + seconds(1), reason)


def test_fifth_failure_in_a_row_begins_a_quarantine() -> None:
    after = ended(facts(running(failures=4, retries=4)), Outcome.FAILED, "it broke")

    assert (after.failures, after.retry_at) == (5, NOW + 15 * MINUTE)
    assert decide(facts(after), NOW, POLICY).phase is Phase.QUARANTINED


@pytest.mark.parametrize("outcome", [Outcome.ENDED, Outcome.TURN_LIMIT])
def test_other_outcomes_reset_the_count_of_failures(outcome: Outcome) -> None:
    assert ended(facts(running(failures=4)), outcome).failures == 0


def test_drained_run_restarts_and_is_no_failure() -> None:
    after = ended(facts(running()), Outcome.INTERRUPTED, "drained", counts=False)

    assert (after.failures, after.retries, after.last_error) == (0, 0, "")
    assert (after.retry_at, after.retry_reason) == (NOW, WakeReason.RESTART_RECOVERY)


def test_jitter_delays_a_retry() -> None:
    after = transitions.ended(facts(running()), Outcome.INTERRUPTED, "died", NOW, counts=True, jitter=0.5)

    assert after.retry_at == NOW + seconds(1.5)


def test_long_error_is_cut() -> None:
    assert ended(facts(running()), Outcome.FAILED, "x" * 9999).last_error == "x" * 500


@pytest.mark.parametrize("outcome", list(Outcome))
def test_stopped_run_is_never_retried(outcome: Outcome) -> None:
    stopping = running(stopped_at=NOW, failures=2, retries=2)

    after = ended(facts(stopping, waiting(period=ActivationPeriod.STOPPED)), outcome, "stopped")

    assert (after.status, after.retry_at, after.sleep_until) == (AgentStatus.SLEEPING, None, None)
    assert (after.failures, after.retries) == (0, 0)


def test_stop_clears_every_plan_of_a_start() -> None:
    before = state(
        sleep_until=NOW + HOUR,
        run_requested_at=NOW,
        queued_at=NOW,
        retry_at=NOW,
        retry_reason=WakeReason.RETRY_AFTER_FAILURE,
    )

    assert transitions.stopped(facts(before), NOW) == state(stopped_at=NOW)


def test_archived_agent_stays_archived_when_its_run_ends() -> None:
    archived = transitions.archived(facts(running()), NOW)

    assert archived.status is AgentStatus.ARCHIVED
    assert ended(facts(archived), Outcome.STOPPED).status is AgentStatus.ARCHIVED


def test_restored_agent_wakes_at_once_if_anything_is_active() -> None:
    archived = state(status=AgentStatus.ARCHIVED, stopped_at=NOW - HOUR)
    held = waiting(Source.SMS, NOW - seconds(10), period=ActivationPeriod.STOPPED)
    seen = facts(archived, held, agent_window_seconds=60)

    after = transitions.restored(seen, NOW)

    assert (after.status, after.stopped_at) == (AgentStatus.SLEEPING, None)
    reconciled = replace(seen, state=after, pending=(replace(held, period=ActivationPeriod.SINCE),))
    wake = decide(reconciled, NOW, POLICY).due_wake(NOW)
    assert wake is not None
    assert wake.reason == "notification:sms"


def test_restored_agent_with_nothing_active_sleeps() -> None:
    archived = state(status=AgentStatus.ARCHIVED, stopped_at=NOW - HOUR)

    assert transitions.restored(facts(archived, reminder(NOW + HOUR)), NOW) == state()


def test_schedule_is_clamped_to_the_cap_of_the_last_run() -> None:
    ran = state(last_started_at=NOW - HOUR, max_sleep_until=NOW + HOUR)

    after = transitions.rescheduled(facts(ran, max_sleep_hours=9), NOW + 5 * HOUR, NOW)

    assert after.sleep_until == NOW + HOUR


def test_schedule_before_any_run_is_clamped_from_now() -> None:
    after = transitions.rescheduled(facts(max_sleep_hours=2), NOW + 5 * HOUR, NOW)

    assert after.sleep_until == NOW + 2 * HOUR


def armed_state(seen: AgentFacts, now: datetime = NOW) -> AgentState:
    return transitions.with_next_due(seen, decide(seen, now, POLICY), now)


@given(some_facts(), any_moment)
def test_next_due_at_is_never_later_than_the_next_change(seen: AgentFacts, now: datetime) -> None:
    armed = armed_state(seen, now)
    next_at = decide(replace(seen, state=armed), now, POLICY).next_at

    if armed.queued_at is not None or next_at is None:
        assert armed.next_due_at is None
    else:
        assert armed.next_due_at is not None
        assert armed.next_due_at <= next_at


@given(some_facts(AgentStatus.RUNNING) | some_facts(AgentStatus.ARCHIVED))
def test_running_or_archived_agent_has_no_next_due_at(seen: AgentFacts) -> None:
    assert armed_state(seen).next_due_at is None


@given(some_facts())
def test_state_with_next_due_at_is_stable(seen: AgentFacts) -> None:
    once = armed_state(seen)

    assert armed_state(replace(seen, state=once)) == once


def test_message_that_extends_a_hold_writes_nothing() -> None:
    holding = state(next_due_at=NOW + seconds(30))
    seen = facts(holding, waiting(Source.SMS, NOW - seconds(30), NOW - seconds(1)), agent_window_seconds=60)

    assert armed_state(seen) == holding


def test_retry_that_is_no_longer_needed_is_dropped() -> None:
    backing_off = state(
        retry_at=NOW + MINUTE,
        retry_reason=WakeReason.UNCLEARED_NOTIFICATIONS,
        retries=3,
        next_due_at=NOW + MINUTE,
    )

    assert armed_state(facts(backing_off)) == state(retries=3)
