"""What an agent does next."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.model import ActivationPeriod, AgentFacts, AgentStatus, Budget, PendingGroup, Source
from supervisors.policy.budgets import dollars, renewed_at
from supervisors.policy.decisions import (
    Decision,
    Wake,
    WakeCause,
    WakeReason,
    active_count,
    decide,
    pending_retry_at,
)
from supervisors.policy.phases import Phase
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.supervisors.agent_facts import (
    POLICY,
    facts,
    reminder,
    running,
    seconds,
    some_circumstances,
    some_waiting,
    state,
    waiting,
)

MIDNIGHT = NOW + 15 * HOUR


def decided(seen: AgentFacts) -> Decision:
    return decide(seen, NOW, POLICY)


def due(seen: AgentFacts) -> str | None:
    """The reason of the start that is due, if one is."""
    wake = decided(seen).due_wake(NOW)
    return wake.reason if wake else None


def quarantined(**fields: Any) -> AgentFacts:
    """Its fifth run in a row has failed ten seconds ago, half a minute after its start."""
    failing = state(
        failures=5,
        retries=5,
        retry_at=NOW + 15 * MINUTE,
        retry_reason=WakeReason.RETRY_AFTER_FAILURE,
        last_started_at=NOW - seconds(40),
        last_ended_at=NOW - seconds(10),
    )
    return facts(replace(failing, **fields))


def test_a_plain_agent_sleeps_until_something_wakes_it() -> None:
    assert decided(facts()) == Decision(Phase.ASLEEP)


@given(some_circumstances(AgentStatus.RUNNING))
def test_nothing_starts_beside_a_run(seen: AgentFacts) -> None:
    phase = Phase.RUNNING if seen.state.stopped_at is None else Phase.STOPPING

    assert decided(seen) == Decision(phase)


@given(some_circumstances(AgentStatus.ARCHIVED))
def test_nothing_starts_an_archived_agent(seen: AgentFacts) -> None:
    assert decided(seen) == Decision(Phase.ARCHIVED)


@given(some_circumstances())
def test_nothing_starts_in_a_paused_organization(seen: AgentFacts) -> None:
    assert decided(replace(seen, paused=True)) == Decision(Phase.PAUSED)


@given(some_circumstances())
def test_over_its_budget_nothing_starts_before_midnight(seen: AgentFacts) -> None:
    spent = decided(replace(seen, budgets=(*seen.budgets, Budget(False, Decimal(5), Decimal(5)))))

    assert spent.wake is None or spent.wake.at >= MIDNIGHT
    assert spent.phase in {Phase.ASLEEP, Phase.QUARANTINED}


@given(some_circumstances())
def test_a_budget_that_is_not_reached_changes_nothing(seen: AgentFacts) -> None:
    within = (Budget(False, Decimal(5), Decimal("4.99")), Budget(True, Decimal(9), Decimal(0)))

    assert decided(replace(seen, budgets=within)) == decided(replace(seen, budgets=()))


@pytest.mark.parametrize("now", [NOW, NOW + 15 * HOUR, NOW + 15 * HOUR - seconds(0.000001)])
def test_midnight_is_always_ahead(now: datetime) -> None:
    until = renewed_at(now)

    assert now < until <= now + 24 * HOUR
    assert (until.hour, until.minute, until.second, until.microsecond) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("amount", "told"), [("5", "5.00"), ("5.1", "5.10"), ("0.000001", "0.000001"), ("1E+3", "1000.00")]
)
def test_a_sum_is_told_in_full(amount: str, told: str) -> None:
    assert dollars(Decimal(amount)) == told


@given(some_circumstances())
def test_what_was_active_before_a_stop_changes_nothing(seen: AgentFacts) -> None:
    seen = replace(seen, state=replace(seen.state, stopped_at=NOW))
    without = tuple(group for group in seen.pending if group.period is not ActivationPeriod.STOPPED)

    assert decided(seen) == decided(replace(seen, pending=without))


@given(st.lists(some_waiting(), max_size=4))
def test_what_is_stopped_or_lies_ahead_starts_nothing_yet(groups: list[PendingGroup]) -> None:
    seen = facts(
        None,
        *(group for group in groups if group.period in {ActivationPeriod.AHEAD, ActivationPeriod.STOPPED}),
    )

    assert due(seen) is None


@given(some_circumstances())
def test_an_active_notification_is_never_forgotten(seen: AgentFacts) -> None:
    counts = any(
        group.period not in {ActivationPeriod.AHEAD, ActivationPeriod.STOPPED} for group in seen.pending
    )

    assert not counts or decided(seen).wake is not None


@given(some_circumstances())
def test_a_reminder_ahead_is_never_forgotten(seen: AgentFacts) -> None:
    has_one = any(group.period is ActivationPeriod.AHEAD for group in seen.pending)

    assert not has_one or decided(seen).wake is not None


@given(some_circumstances())
def test_a_recorded_reason_fits_its_field(seen: AgentFacts) -> None:
    wake = decided(seen).wake

    assert wake is None or 0 < len(wake.reason) <= 64


@pytest.mark.parametrize("source", [Source.API, Source.SYSTEM, Source.BROWSER, Source.SUBAGENT])
def test_a_notification_from_a_machine_wakes_at_once(source: Source) -> None:
    seen = facts(None, waiting(source), agent_window_seconds=60)

    assert due(seen) == f"notification:{source}"


def test_conversation_wakes_at_once_without_a_window() -> None:
    assert due(facts(None, waiting(Source.SMS))) == "notification:sms"


def test_conversation_is_held_for_the_templates_window() -> None:
    decision = decided(facts(None, waiting(Source.SMS), template_window_seconds=60))

    assert decision.phase is Phase.HOLDING
    assert decision.wake == Wake(NOW + MINUTE, "notification:sms", WakeCause.HOLD)


def test_a_hold_that_lasted_its_length_wakes_whatever_the_wall_clock_says() -> None:
    seen = facts(None, waiting(Source.SMS, NOW + HOUR), agent_window_seconds=60)

    assert decided(seen).due_wake(NOW) is None
    wake = decide(seen, NOW, POLICY, hold_is_over=True).due_wake(NOW)
    assert wake == Wake(NOW, "notification:sms", WakeCause.HOLD)


def test_of_several_due_at_once_the_notification_activated_last_is_the_reason() -> None:
    held_back = state(sleep_until=NOW - HOUR)
    seen = facts(
        held_back,
        waiting(Source.API, NOW - 2 * MINUTE),
        reminder(NOW - MINUTE, period=ActivationPeriod.SINCE),
    )

    assert due(seen) == WakeReason.REMINDER
    assert due(replace(seen, pending=())) == WakeReason.SLEEP_ELAPSED


def test_a_run_request_that_has_waited_longest_keeps_its_reason() -> None:
    seen = facts(state(run_requested_at=NOW - HOUR), waiting(Source.API, NOW - MINUTE))

    assert due(seen) == WakeReason.RUN_REQUESTED


def test_a_run_of_a_paused_organization_is_stopping() -> None:
    assert decided(facts(running(), paused=True)) == Decision(Phase.STOPPING)


def test_a_message_from_a_machine_ends_the_hold() -> None:
    seen = facts(
        None,
        waiting(Source.SMS, NOW - seconds(10)),
        waiting(Source.API, NOW - seconds(1)),
        agent_window_seconds=60,
    )

    assert due(seen) == "notification:api"


def test_a_reminder_falling_due_ends_the_hold() -> None:
    seen = facts(
        None,
        waiting(Source.SMS, NOW - seconds(10)),
        reminder(NOW, ActivationPeriod.SINCE, Source.SMS),
        agent_window_seconds=60,
    )

    assert due(seen) == "reminder"


def test_a_reminder_ahead_wakes_at_its_moment() -> None:
    seen = facts(None, reminder(NOW + MINUTE, source=Source.SMS), agent_window_seconds=600)

    assert decided(seen).wake == Wake(NOW + MINUTE, "reminder", WakeCause.REMINDER)
    assert decide(seen, NOW + MINUTE, POLICY).due_wake(NOW + MINUTE) is not None


def test_a_reminder_inside_a_hold_comes_first() -> None:
    seen = facts(None, waiting(Source.SMS), reminder(NOW + seconds(20)), agent_window_seconds=60)

    wake = decided(seen).wake
    assert wake is not None
    assert (wake.at, wake.reason) == (NOW + seconds(20), "reminder")


def test_of_several_reasons_that_of_the_latest_activation_is_recorded() -> None:
    seen = facts(
        None,
        waiting(Source.API, NOW - seconds(9)),
        waiting(Source.BROWSER, NOW - seconds(30), NOW - seconds(2)),
        waiting(Source.SYSTEM, NOW - seconds(5)),
    )

    assert due(seen) == "notification:browser"


def test_a_message_that_came_during_the_run_is_treated_as_if_it_had_just_arrived() -> None:
    seen = facts(
        state(last_started_at=NOW - seconds(60), last_ended_at=NOW),
        waiting(Source.SMS, NOW - seconds(20), period=ActivationPeriod.DURING),
        agent_window_seconds=60,
    )

    assert decided(seen) == replace(
        decided(seen), phase=Phase.HOLDING, wake=Wake(NOW + seconds(40), "notification:sms", WakeCause.HOLD)
    )


def test_what_the_agent_told_itself_during_the_run_waits_for_the_backoff() -> None:
    seen = facts(
        state(
            last_started_at=NOW - seconds(60),
            last_ended_at=NOW,
            retry_at=NOW + seconds(1),
            retry_reason=WakeReason.UNCLEARED_NOTIFICATIONS,
        ),
        waiting(Source.AGENT, NOW - seconds(20), period=ActivationPeriod.DURING),
    )

    assert decided(seen).phase is Phase.BACKING_OFF
    assert decided(seen).wake == Wake(NOW + seconds(1), "uncleared_notifications", WakeCause.RETRY)


def test_a_reminder_of_its_own_that_fell_due_during_the_run_counts_as_arrived() -> None:
    seen = facts(
        state(last_started_at=NOW - seconds(60), last_ended_at=NOW),
        reminder(NOW - seconds(20), ActivationPeriod.DURING, Source.AGENT),
    )

    assert due(seen) == "reminder"


def test_what_a_run_left_uncleared_starts_the_next_one_even_if_no_retry_is_stored() -> None:
    seen = facts(
        state(last_started_at=NOW - HOUR), waiting(period=ActivationPeriod.BEFORE, first_at=NOW - 2 * HOUR)
    )

    assert due(seen) == "uncleared_notifications"


def test_a_retry_for_what_was_left_is_dropped_once_it_is_cleared() -> None:
    backing_off = state(retry_at=NOW, retry_reason=WakeReason.UNCLEARED_NOTIFICATIONS)

    assert decided(facts(backing_off)) == Decision(Phase.ASLEEP)
    assert pending_retry_at(facts(backing_off, waiting(period=ActivationPeriod.BEFORE))) == NOW


@pytest.mark.parametrize("reason", [WakeReason.RETRY_AFTER_FAILURE, WakeReason.RESTART_RECOVERY])
def test_a_retry_after_a_failure_starts_with_nothing_active(reason: WakeReason) -> None:
    seen = facts(state(failures=1, retries=1, retry_at=NOW + seconds(1), retry_reason=reason))

    assert decided(seen) == Decision(Phase.BACKING_OFF, Wake(NOW + seconds(1), reason, WakeCause.RETRY))


def test_a_new_message_does_not_wait_for_the_backoff() -> None:
    backing_off = state(
        failures=1,
        retry_at=NOW + MINUTE,
        retry_reason=WakeReason.RETRY_AFTER_FAILURE,
        last_started_at=NOW - MINUTE,
        last_ended_at=NOW - seconds(30),
    )

    assert due(facts(backing_off, waiting())) == "notification:api"


def test_the_fifth_failure_is_quarantine() -> None:
    decision = decided(quarantined())

    assert decision.phase is Phase.QUARANTINED
    assert decision.wake == Wake(NOW + 15 * MINUTE, "retry_after_failure", WakeCause.RETRY)


def test_an_activation_starts_a_quarantined_agent_a_minute_after_its_last_start() -> None:
    decision = decided(replace(quarantined(), pending=(waiting(),)))

    assert decision.phase is Phase.QUARANTINED
    assert decision.wake == Wake(NOW + seconds(20), "notification:api", WakeCause.NOTIFICATION)


def test_an_activation_long_after_the_last_start_ends_the_quarantine_at_once() -> None:
    seen = quarantined(last_started_at=NOW - HOUR, last_ended_at=NOW - HOUR)

    assert due(replace(seen, pending=(waiting(),))) == "notification:api"


def test_a_run_request_starts_a_quarantined_agent_at_once() -> None:
    assert due(quarantined(run_requested_at=NOW)) == "run_requested"


def test_the_end_of_a_sleep_does_not_end_a_quarantine() -> None:
    assert due(quarantined(sleep_until=NOW - seconds(1))) is None


def test_a_sleep_that_has_elapsed_wakes() -> None:
    assert due(facts(state(sleep_until=NOW))) == "sleep_elapsed"
    assert due(facts(state(sleep_until=NOW + seconds(1)))) is None


def test_a_sleep_of_no_length_does_not_spin() -> None:
    just_ran = state(sleep_until=NOW - HOUR, last_started_at=NOW - seconds(0.2))

    assert decided(facts(just_ran)).wake == Wake(NOW + seconds(0.8), "sleep_elapsed", WakeCause.SLEEP_UNTIL)


def test_a_kept_run_request_starts() -> None:
    assert due(facts(state(run_requested_at=NOW))) == "run_requested"


def test_a_start_that_waits_for_a_slot_has_its_hold_behind_it() -> None:
    talk = waiting(Source.SMS, NOW - seconds(30), NOW)
    seen = facts(state(queued_at=NOW - seconds(1)), talk, agent_window_seconds=20)

    assert due(seen) == "notification:sms"


def test_a_start_that_waits_for_a_slot_ends_no_hold_that_did_not_lead_to_it() -> None:
    queued_since = NOW - seconds(10)
    retried = state(queued_at=queued_since, retry_at=queued_since, retry_reason=WakeReason.RESTART_RECOVERY)
    talk = waiting(Source.SMS, NOW - seconds(15))

    assert due(facts(retried, talk, agent_window_seconds=20)) == "restart_recovery"
    left_alone = facts(state(queued_at=queued_since), talk, agent_window_seconds=20)
    assert decided(left_alone).wake == Wake(NOW + seconds(5), "notification:sms", WakeCause.HOLD)


def test_what_waits_is_counted_with_what_a_stop_silenced_but_not_with_what_lies_ahead() -> None:
    seen = facts(
        running(),
        waiting(count=2, period=ActivationPeriod.STOPPED),
        waiting(count=3, period=ActivationPeriod.DURING),
        reminder(NOW + HOUR),
    )

    assert active_count(seen) == 5
