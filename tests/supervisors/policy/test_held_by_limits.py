"""Agents that their limits on wakes hold: when they wake, and what is said of them."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from storage.agent_facts import ActivationPeriod, AgentFacts, Budget, PendingGroup, WakeLimits
from storage.model import Source
from supervisors.policy.decisions import Decision, WakeReason, decide
from supervisors.policy.explanations import (
    StartLimits,
    describe_cause,
    phase_of,
    recorded_name,
    why,
)
from supervisors.policy.phases import Phase
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.supervisors.agent_facts import POLICY, facts, past, reminder, seconds, some_facts, state, waiting

QUIET = WakeLimits(quiet_hours="08:00-12:00")  # it is 9:00
NOON = NOW + 3 * HOUR
HOURLY = WakeLimits(max_wakes_per_hour=2, fills_hour_at=NOW - 20 * MINUTE)
DAILY = WakeLimits(max_wakes_per_day=24, fills_day_at=NOW - HOUR, timezone="Europe/Vienna")
PASSES = "a run request or an urgent notification wakes it at once."
QUIET_UNTIL_NOON = f"Quiet until 2126-11-21 12:00 UTC; {PASSES}"


def limited(limits: WakeLimits, *pending: PendingGroup, **fields: object) -> AgentFacts:
    return replace(facts(state(**fields), *pending), limits=limits)


def decided(seen: AgentFacts) -> Decision:
    return decide(seen, NOW, POLICY)


def said(seen: AgentFacts) -> str:
    decision = decided(seen)
    phase = phase_of(seen, decision, NOW)
    return why(seen, decision, phase, NOW, since=NOW, limits=StartLimits(5))


@pytest.mark.parametrize(
    ("limits", "renewal", "sentence"),
    [
        (QUIET, NOON, QUIET_UNTIL_NOON),
        (
            HOURLY,
            NOW + 40 * MINUTE,
            f"Has woken 2 times within an hour, its limit; next at 2126-11-21 09:40 UTC; {PASSES}",
        ),
        (
            DAILY,
            NOW + 14 * HOUR,
            f"Has woken 24 times today, its limit; next at 2126-11-21 23:00 UTC; {PASSES}",
        ),
    ],
)
def test_limit_holds_a_notification_until_its_renewal(
    limits: WakeLimits, renewal: object, sentence: str
) -> None:
    seen = limited(limits, waiting())
    decision = decided(seen)

    assert decision.wake is not None
    assert decision.wake.at == decision.next_at == renewal
    assert recorded_name(decision, decision.phase) == "held_by_limits"
    assert said(seen) == sentence
    assert describe_cause(decision.wake) == (
        "Its limits allow it to wake again. It is woken by a high-priority notification from api."
    )


@pytest.mark.parametrize("limits", [QUIET, HOURLY, DAILY])
def test_person_wakes_an_agent_that_its_limits_hold(limits: WakeLimits) -> None:
    requested = limited(limits, waiting(), run_requested_at=NOW)
    urgent = limited(limits, waiting(), waiting(urgent=True))

    for seen in (requested, urgent):
        assert decided(seen).due_wake(NOW) is not None


def test_urgent_reminder_wakes_in_quiet_hours_and_others_after_them() -> None:
    usual, urgent = reminder(NOW + HOUR), replace(reminder(NOW + 2 * HOUR), urgent=True)

    assert decided(limited(QUIET, usual)).wake.at == NOON  # type: ignore[union-attr]
    decision = decided(limited(QUIET, usual, urgent))
    assert decision.wake is not None
    assert decision.wake.at == NOW + 2 * HOUR
    assert decision.changes_at == NOW + HOUR  # the other one waits from then on
    assert decision.held_by is None


def test_urgent_message_waits_for_the_pause_of_its_conversation_only() -> None:
    seen = replace(
        limited(QUIET, waiting(Source.SMS, urgent=True), waiting(Source.SMS)), agent_window_seconds=60
    )
    decision = decided(seen)

    assert decision.phase is Phase.HOLDING
    assert decision.wake is not None
    assert decision.wake.at == NOW + MINUTE


def test_urgent_notification_that_a_run_left_waits_like_others() -> None:
    """So each urgent notification starts one run more than the limits allow, at most."""
    left = waiting(period=ActivationPeriod.BEFORE, urgent=True)
    seen = limited(
        HOURLY,
        left,
        last_started_at=NOW - MINUTE,
        last_ended_at=NOW,
        retry_at=NOW,
        retry_reason=WakeReason.UNCLEARED_NOTIFICATIONS,
        left_over=1,
    )

    assert decided(seen).due_wake(NOW) is None


def test_conversation_is_held_by_quiet_hours_and_not_by_its_window() -> None:
    seen = replace(limited(QUIET, waiting(Source.SMS)), agent_window_seconds=60)

    assert decided(seen).phase is Phase.ASLEEP
    assert said(seen) == QUIET_UNTIL_NOON


def test_sleep_that_ends_in_quiet_hours_is_said_to_end_with_them() -> None:
    seen = limited(QUIET, sleep_until=NOW + HOUR)
    decision = decided(seen)

    assert decision.wake is not None
    assert decision.wake.at == NOON
    assert decision.next_at == NOW + HOUR  # then it is held
    assert said(seen) == (
        "Asleep until 2126-11-21 10:00 UTC; its limits allow it to wake at 2126-11-21 12:00 UTC."
    )


def test_quarantine_shows_before_the_limits() -> None:
    seen = limited(
        QUIET,
        waiting(),
        failures=5,
        retries=5,
        retry_at=NOW + 15 * MINUTE,
        retry_reason=WakeReason.RETRY_AFTER_FAILURE,
        last_started_at=NOW - MINUTE,
        last_ended_at=NOW - seconds(30),
        last_error="no answer",
    )
    decision = decided(seen)

    assert recorded_name(decision, decision.phase) == "quarantined"
    assert said(seen).endswith("Its limits allow it to wake at 2126-11-21 12:00 UTC.")


def test_budget_that_is_renewed_in_quiet_hours_waits_for_their_end() -> None:
    spent = replace(
        limited(WakeLimits(quiet_hours="22:00-07:00"), waiting()),
        budgets=(Budget(False, Decimal(1), Decimal(1)),),
    )
    decision = decided(spent)

    assert recorded_name(decision, decision.phase) == "over_budget"
    assert decision.wake is not None
    assert decision.wake.at == NOW + 22 * HOUR
    assert decision.next_at == NOW + 15 * HOUR


@given(some_facts(), past, past, st.sampled_from(("", "08:00-12:00", "09:30-10:00")))
def test_limits_only_delay(seen: AgentFacts, hour_start: object, day_start: object, quiet: str) -> None:
    limits = WakeLimits(3, 9, quiet, "Europe/Vienna", hour_start, day_start)  # type: ignore[arg-type]
    free, held = decided(replace(seen, budgets=())), decided(replace(seen, budgets=(), limits=limits))
    assume(free.wake is not None)

    assert free.wake is not None
    assert held.wake is not None
    assert held.wake.at >= min(free.wake.at, NOW)
    assert held.due_wake(NOW) is None or free.due_wake(NOW) is not None
    assert held.next_at is not None
    assert held.next_at > NOW or held.due_wake(NOW)
