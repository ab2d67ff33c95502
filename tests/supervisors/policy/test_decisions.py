"""The wake rules, by example and by property."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.agent_facts import ActivationPeriod, AgentFacts, Budget, PendingGroup
from storage.model import AgentStatus, Source
from supervisors.policy.decisions import (
    Decision,
    Hold,
    Wake,
    WakeCause,
    WakeReason,
    active_count,
    decide,
    effective_window,
    hold_for,
    max_hold_seconds,
    pending_retry_at,
)
from supervisors.policy.phases import Phase
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.supervisors.agent_facts import (
    POLICY,
    facts,
    past,
    reminder,
    running,
    seconds,
    some_facts,
    some_group,
    state,
    waiting,
)

MIDNIGHT = NOW + 15 * HOUR


def decided(seen: AgentFacts) -> Decision:
    return decide(seen, NOW, POLICY)


def due(seen: AgentFacts) -> str | None:
    """Return the reason of the due wake; None if no wake is due."""
    wake = decided(seen).due_wake(NOW)
    return wake.reason if wake else None


def quarantined(**fields: Any) -> AgentFacts:
    """Return facts of an agent whose fifth run in a row failed ten seconds ago, 30 s after its start."""
    failing = state(
        failures=5,
        retries=5,
        retry_at=NOW + 15 * MINUTE,
        retry_reason=WakeReason.RETRY_AFTER_FAILURE,
        last_started_at=NOW - seconds(40),
        last_ended_at=NOW - seconds(10),
    )
    return facts(replace(failing, **fields))


def test_agent_without_plans_is_asleep() -> None:
    assert decided(facts()) == Decision(Phase.ASLEEP)


@given(some_facts(AgentStatus.RUNNING))
def test_running_agent_has_no_wake(seen: AgentFacts) -> None:
    """Invariant I1."""
    phase = Phase.RUNNING if seen.state.stopped_at is None else Phase.STOPPING

    assert decided(seen) == Decision(phase)


@given(some_facts(AgentStatus.ARCHIVED))
def test_archived_agent_has_no_wake(seen: AgentFacts) -> None:
    assert decided(seen) == Decision(Phase.ARCHIVED)


@given(some_facts())
def test_agent_of_a_paused_organization_has_no_wake(seen: AgentFacts) -> None:
    assert decided(replace(seen, organization_paused=True)) == Decision(Phase.PAUSED)


@given(some_facts())
def test_agent_over_budget_wakes_at_midnight_or_later(seen: AgentFacts) -> None:
    spent = decided(replace(seen, budgets=(*seen.budgets, Budget(False, Decimal(5), Decimal(5)))))

    assert spent.wake is None or spent.wake.at >= MIDNIGHT
    assert spent.phase in {Phase.ASLEEP, Phase.QUARANTINED}


@given(some_facts())
def test_unspent_budget_changes_nothing(seen: AgentFacts) -> None:
    within = (Budget(False, Decimal(5), Decimal("4.99")), Budget(True, Decimal(9), Decimal(0)))

    assert decided(replace(seen, budgets=within)) == decided(replace(seen, budgets=()))


@given(some_facts())
def test_notifications_from_before_a_stop_change_nothing(seen: AgentFacts) -> None:
    seen = replace(seen, state=replace(seen.state, stopped_at=NOW))
    without = tuple(group for group in seen.pending if group.period is not ActivationPeriod.STOPPED)

    assert decided(seen) == decided(replace(seen, pending=without))


@given(st.lists(some_group(), max_size=4))
def test_stopped_or_future_notifications_do_not_wake_now(groups: list[PendingGroup]) -> None:
    seen = facts(
        None,
        *(group for group in groups if group.period in {ActivationPeriod.AHEAD, ActivationPeriod.STOPPED}),
    )

    assert due(seen) is None


@given(some_facts())
def test_active_notification_always_leads_to_a_wake(seen: AgentFacts) -> None:
    """Invariant I2."""
    is_active = any(
        group.period not in {ActivationPeriod.AHEAD, ActivationPeriod.STOPPED} for group in seen.pending
    )

    assert not is_active or decided(seen).wake is not None


@given(some_facts())
def test_future_reminder_always_leads_to_a_wake(seen: AgentFacts) -> None:
    """Invariant I6."""
    has_reminder = any(group.period is ActivationPeriod.AHEAD for group in seen.pending)

    assert not has_reminder or decided(seen).wake is not None


@given(some_facts())
def test_wake_reason_fits_its_column(seen: AgentFacts) -> None:
    wake = decided(seen).wake

    assert wake is None or 0 < len(wake.reason) <= 64


@pytest.mark.parametrize("source", [Source.API, Source.SYSTEM, Source.BROWSER, Source.SUBAGENT])
def test_machine_notification_wakes_at_once(source: Source) -> None:
    seen = facts(None, waiting(source), agent_window_seconds=60)

    assert due(seen) == f"notification:{source}"


def test_conversation_wakes_at_once_without_a_window() -> None:
    assert due(facts(None, waiting(Source.SMS))) == "notification:sms"


def test_conversation_is_held_for_the_template_window() -> None:
    decision = decided(facts(None, waiting(Source.SMS), template_window_seconds=60))

    assert decision.phase is Phase.HOLDING
    assert decision.wake == Wake(NOW + MINUTE, "notification:sms", WakeCause.HOLD)


def test_hold_lasts_one_window_more_after_the_clock_was_set_back() -> None:
    held = waiting(Source.SMS, NOW + HOUR)
    decision = decided(facts(None, held, agent_window_seconds=60))
    assert decision.wake == Wake(NOW + MINUTE, "notification:sms", WakeCause.HOLD)

    later = facts(state(next_due_at=decision.next_at), held, agent_window_seconds=60)
    for now in (NOW + MINUTE / 2, NOW + MINUTE):
        assert decide(later, now, POLICY).wake == decision.wake, "the end that was decided first counts"


def test_queued_start_needs_no_second_hold_after_the_clock_was_set_back() -> None:
    queued = state(queued_at=NOW + HOUR)

    wake = decided(facts(queued, waiting(Source.SMS, NOW + HOUR), agent_window_seconds=60)).due_wake(NOW)

    assert wake == Wake(NOW, "notification:sms", WakeCause.HOLD)


def test_last_activated_notification_is_the_reason_of_several_due() -> None:
    elapsed = state(sleep_until=NOW - HOUR)
    seen = facts(
        elapsed,
        waiting(Source.API, NOW - 2 * MINUTE),
        reminder(NOW - MINUTE, period=ActivationPeriod.SINCE),
    )

    assert due(seen) == WakeReason.REMINDER
    assert due(replace(seen, pending=())) == WakeReason.SLEEP_ELAPSED


def test_earliest_run_request_is_the_reason_of_several_due() -> None:
    seen = facts(state(run_requested_at=NOW - HOUR), waiting(Source.API, NOW - MINUTE))

    assert due(seen) == WakeReason.RUN_REQUESTED


def test_run_of_a_paused_organization_is_stopping() -> None:
    assert decided(facts(running(), organization_paused=True)) == Decision(Phase.STOPPING)


def test_machine_notification_ends_the_hold() -> None:
    seen = facts(
        None,
        waiting(Source.SMS, NOW - seconds(10)),
        waiting(Source.API, NOW - seconds(1)),
        agent_window_seconds=60,
    )

    assert due(seen) == "notification:api"


def test_due_reminder_ends_the_hold() -> None:
    seen = facts(
        None,
        waiting(Source.SMS, NOW - seconds(10)),
        reminder(NOW, ActivationPeriod.SINCE, Source.SMS),
        agent_window_seconds=60,
    )

    assert due(seen) == "reminder"


def test_future_reminder_wakes_at_its_moment() -> None:
    seen = facts(None, reminder(NOW + MINUTE, source=Source.SMS), agent_window_seconds=600)

    assert decided(seen).wake == Wake(NOW + MINUTE, "reminder", WakeCause.REMINDER)
    assert decide(seen, NOW + MINUTE, POLICY).due_wake(NOW + MINUTE) is not None


def test_reminder_within_a_hold_wakes_first() -> None:
    seen = facts(None, waiting(Source.SMS), reminder(NOW + seconds(20)), agent_window_seconds=60)

    wake = decided(seen).wake
    assert wake is not None
    assert (wake.at, wake.reason) == (NOW + seconds(20), "reminder")


def test_latest_activation_is_the_recorded_reason() -> None:
    seen = facts(
        None,
        waiting(Source.API, NOW - seconds(9)),
        waiting(Source.BROWSER, NOW - seconds(30), NOW - seconds(2)),
        waiting(Source.SYSTEM, NOW - seconds(5)),
    )

    assert due(seen) == "notification:browser"


def test_message_during_the_run_is_held_like_a_new_one() -> None:
    seen = facts(
        state(last_started_at=NOW - seconds(60), last_ended_at=NOW),
        waiting(Source.SMS, NOW - seconds(20), period=ActivationPeriod.DURING),
        agent_window_seconds=60,
    )

    assert decided(seen) == replace(
        decided(seen),
        phase=Phase.HOLDING,
        wake=Wake(NOW + seconds(40), "notification:sms", WakeCause.HOLD),
    )


def test_own_notification_from_the_run_waits_for_the_backoff() -> None:
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


def test_own_reminder_due_during_the_run_wakes_at_once() -> None:
    seen = facts(
        state(last_started_at=NOW - seconds(60), last_ended_at=NOW),
        reminder(NOW - seconds(20), ActivationPeriod.DURING, Source.AGENT),
    )

    assert due(seen) == "reminder"


def test_left_over_notification_wakes_without_a_stored_retry() -> None:
    seen = facts(
        state(last_started_at=NOW - HOUR), waiting(period=ActivationPeriod.BEFORE, first_at=NOW - 2 * HOUR)
    )

    assert due(seen) == "uncleared_notifications"


def test_retry_for_left_overs_is_dropped_once_they_are_cleared() -> None:
    backing_off = state(retry_at=NOW, retry_reason=WakeReason.UNCLEARED_NOTIFICATIONS)

    assert decided(facts(backing_off)) == Decision(Phase.ASLEEP)
    assert pending_retry_at(facts(backing_off, waiting(period=ActivationPeriod.BEFORE))) == NOW


@pytest.mark.parametrize("reason", [WakeReason.RETRY_AFTER_FAILURE, WakeReason.RESTART_RECOVERY])
def test_retry_after_a_failure_needs_no_active_notification(reason: WakeReason) -> None:
    seen = facts(state(failures=1, retries=1, retry_at=NOW + seconds(1), retry_reason=reason))

    assert decided(seen) == Decision(Phase.BACKING_OFF, Wake(NOW + seconds(1), reason, WakeCause.RETRY))


def test_new_notification_does_not_wait_for_the_backoff() -> None:
    backing_off = state(
        failures=1,
        retry_at=NOW + MINUTE,
        retry_reason=WakeReason.RETRY_AFTER_FAILURE,
        last_started_at=NOW - MINUTE,
        last_ended_at=NOW - seconds(30),
    )

    assert due(facts(backing_off, waiting())) == "notification:api"


def test_fifth_failure_is_quarantine() -> None:
    decision = decided(quarantined())

    assert decision.phase is Phase.QUARANTINED
    assert decision.wake == Wake(NOW + 15 * MINUTE, "retry_after_failure", WakeCause.RETRY)


def test_notification_wakes_quarantined_agent_a_minute_after_last_start() -> None:
    decision = decided(replace(quarantined(), pending=(waiting(),)))

    assert decision.phase is Phase.QUARANTINED
    assert decision.wake == Wake(NOW + seconds(20), "notification:api", WakeCause.NOTIFICATION)


def test_notification_wakes_long_quarantined_agent_at_once() -> None:
    seen = quarantined(last_started_at=NOW - HOUR, last_ended_at=NOW - HOUR)

    assert due(replace(seen, pending=(waiting(),))) == "notification:api"


def test_run_request_starts_a_quarantined_agent_at_once() -> None:
    assert due(quarantined(run_requested_at=NOW)) == "run_requested"


def test_elapsed_sleep_does_not_end_a_quarantine() -> None:
    assert due(quarantined(sleep_until=NOW - seconds(1))) is None


def test_elapsed_sleep_wakes() -> None:
    assert due(facts(state(sleep_until=NOW))) == "sleep_elapsed"
    assert due(facts(state(sleep_until=NOW + seconds(1)))) is None


def test_sleep_of_no_length_waits_for_the_minimum_interval() -> None:
    just_ran = state(sleep_until=NOW - HOUR, last_started_at=NOW - seconds(0.2))

    assert decided(facts(just_ran)).wake == Wake(NOW + seconds(0.8), "sleep_elapsed", WakeCause.SLEEP_UNTIL)


def test_kept_run_request_starts() -> None:
    assert due(facts(state(run_requested_at=NOW))) == "run_requested"


def test_queued_start_is_not_held_again() -> None:
    message = waiting(Source.SMS, NOW - seconds(30), NOW)
    seen = facts(state(queued_at=NOW - seconds(1)), message, agent_window_seconds=20)

    assert due(seen) == "notification:sms"


def test_queued_start_does_not_end_an_unrelated_hold() -> None:
    queued_at = NOW - seconds(10)
    retrying = state(queued_at=queued_at, retry_at=queued_at, retry_reason=WakeReason.RESTART_RECOVERY)
    message = waiting(Source.SMS, NOW - seconds(15))

    assert due(facts(retrying, message, agent_window_seconds=20)) == "restart_recovery"
    unrelated = facts(state(queued_at=queued_at), message, agent_window_seconds=20)
    assert decided(unrelated).wake == Wake(NOW + seconds(5), "notification:sms", WakeCause.HOLD)


def test_active_count_includes_stopped_but_not_future_notifications() -> None:
    seen = facts(
        running(),
        waiting(count=2, period=ActivationPeriod.STOPPED),
        waiting(count=3, period=ActivationPeriod.DURING),
        reminder(NOW + HOUR),
    )

    assert active_count(seen) == 5


windows = st.integers(1, 2**31 - 1)
caps = st.integers(0, 365 * 86_400)
messages = st.lists(past, min_size=1, max_size=6).map(
    lambda moments: [waiting(Source.SMS, moment) for moment in moments]
)


@pytest.mark.parametrize(
    ("of_agent", "of_template", "expected"),
    [(None, None, 0), (None, 60, 60), (5, 60, 5), (0, 60, 0), (5, None, 5), (None, 0, 0)],
)
def test_window_of_agent_overrides_template(
    of_agent: int | None, of_template: int | None, expected: int
) -> None:
    assert effective_window(of_agent, of_template) == expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [(1, 10), (30, 300), (60, 300), (150, 300), (151, 302), (3600, 7200)],
)
def test_max_hold_is_ten_windows_within_cap_or_two_windows(window: int, expected: int) -> None:
    assert max_hold_seconds(window, cap_seconds=300) == expected


def test_no_message_or_no_window_means_no_hold() -> None:
    assert hold_for([], 60, 300) is None
    assert hold_for([waiting(Source.SMS)], 0, 300) is None


def test_hold_ends_one_window_after_the_last_message() -> None:
    held = [waiting(Source.SMS, NOW, NOW + seconds(50)), waiting(Source.EMAIL, NOW + seconds(20))]

    assert hold_for(held, 60, 300) == Hold(
        60, NOW, NOW + seconds(50), NOW + seconds(110), 2, NOW + seconds(300)
    )


def test_hold_ends_at_its_cap() -> None:
    hold = hold_for([waiting(Source.SMS, NOW, NOW + seconds(299))], 60, 300)

    assert hold is not None
    assert hold.due_at == NOW + seconds(300)


@given(messages, windows, caps)
def test_hold_ends_at_the_earlier_of_quiet_and_cap(held: list[PendingGroup], window: int, cap: int) -> None:
    """Invariant I5."""
    hold = hold_for(held, window, cap)

    assert hold is not None
    quiet_at = max(message.last_at for message in held) + timedelta(seconds=window)
    capped_at = min(message.first_at for message in held) + timedelta(seconds=max_hold_seconds(window, cap))
    assert hold.due_at in {quiet_at, capped_at}
    assert hold.due_at <= quiet_at
    assert hold.due_at <= capped_at


@given(messages, windows, caps, st.integers(0, 36_000))
def test_later_message_never_shortens_a_hold(
    held: list[PendingGroup], window: int, cap: int, later: int
) -> None:
    before = hold_for(held, window, cap)
    after = hold_for([*held, waiting(Source.SMS, NOW + seconds(later))], window, cap)

    assert before is not None
    assert after is not None
    assert after.due_at >= before.due_at


@given(messages, windows, caps)
def test_single_message_is_held_for_exactly_the_window(
    held: list[PendingGroup], window: int, cap: int
) -> None:
    hold = hold_for(held[:1], window, cap)

    assert hold is not None
    assert hold.due_at - held[0].last_at == timedelta(seconds=window)
