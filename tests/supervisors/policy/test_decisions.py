"""The wake rules, by example and by property."""

from dataclasses import replace
from datetime import datetime, timedelta
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
    calls_that_refuse_sleep,
    decide,
    hold_for,
    hold_of,
    max_hold_seconds,
    pending_retry_at,
    reached_budget,
    renewed_at,
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


AFTER_RUN = state(last_started_at=NOW - MINUTE, last_ended_at=NOW)
OWN_RETRY = replace(AFTER_RUN, retry_at=NOW + seconds(1), retry_reason=WakeReason.UNCLEARED_NOTIFICATIONS)
FAILED = state(
    failures=1,
    retry_at=NOW + MINUTE,
    retry_reason=WakeReason.RETRY_AFTER_FAILURE,
    last_started_at=NOW - MINUTE,
    last_ended_at=NOW - seconds(30),
)
INTERRUPTED = replace(FAILED, retry_reason=WakeReason.RESTART_RECOVERY)
RESTED = quarantined(last_started_at=NOW - HOUR, last_ended_at=NOW - HOUR)
TEXT = waiting(Source.SMS, NOW - seconds(15))
BEFORE, DURING, SINCE = ActivationPeriod.BEFORE, ActivationPeriod.DURING, ActivationPeriod.SINCE
QUEUED_AT = NOW - seconds(10)

# What is known of an agent, and the reason for which it starts now.
DUE = {
    "a notification of a machine": (facts(None, waiting(Source.BROWSER)), "notification:browser"),
    "a text without a window": (facts(None, TEXT, agent_window_seconds=0), "notification:sms"),
    "a notification in a hold": (facts(None, TEXT, waiting()), "notification:api"),
    "a reminder in a hold": (facts(None, TEXT, reminder(NOW, SINCE, Source.SMS)), "reminder"),
    "the latest of several": (
        facts(
            None,
            waiting(Source.API, NOW - seconds(9)),
            waiting(Source.BROWSER, NOW - seconds(30), NOW - seconds(2)),
            waiting(Source.SYSTEM, NOW - seconds(5)),
        ),
        "notification:browser",
    ),
    "a reminder after an elapsed sleep": (
        facts(state(sleep_until=NOW - HOUR), reminder(NOW - MINUTE, period=SINCE)),
        "reminder",
    ),
    "an elapsed sleep": (facts(state(sleep_until=NOW)), "sleep_elapsed"),
    "a sleep that goes on": (facts(state(sleep_until=NOW + seconds(1))), None),
    "a run request": (facts(state(run_requested_at=NOW)), "run_requested"),
    "a run request before a notification": (
        facts(state(run_requested_at=NOW - HOUR), waiting(first_at=NOW - MINUTE)),
        "run_requested",
    ),
    "its own reminder during the run": (
        facts(AFTER_RUN, reminder(NOW - seconds(20), DURING, Source.AGENT)),
        "reminder",
    ),
    "something left over without a retry": (
        facts(AFTER_RUN, waiting(period=BEFORE, first_at=NOW - 2 * HOUR)),
        "uncleared_notifications",
    ),
    "a notification in a backoff": (facts(FAILED, waiting()), "notification:api"),
    "a notification in a long quarantine": (replace(RESTED, pending=(waiting(),)), "notification:api"),
    "a run request in a quarantine": (quarantined(run_requested_at=NOW), "run_requested"),
    "an elapsed sleep in a quarantine": (quarantined(sleep_until=NOW - seconds(1)), None),
    "a queued start after a hold": (
        facts(state(queued_at=NOW - seconds(1)), waiting(Source.SMS, NOW - 2 * MINUTE, NOW)),
        "notification:sms",
    ),
    "a queued start after the clock was set back": (
        facts(state(queued_at=NOW + HOUR), waiting(Source.SMS, NOW + HOUR)),
        "notification:sms",
    ),
    "a queued retry in a hold": (
        facts(replace(INTERRUPTED, queued_at=QUEUED_AT, retry_at=QUEUED_AT), TEXT),
        "restart_recovery",
    ),
}


@pytest.mark.parametrize("name", DUE)
def test_agent_starts_for_the_right_reason(name: str) -> None:
    seen, reason = DUE[name]

    assert due(replace(seen, template_window_seconds=60)) == reason


# What is known of an agent, its phase, and its wake that lies ahead: in how many seconds, why and by what.
AHEAD = {
    "no plans": (facts(), Phase.ASLEEP, None),
    "a paused run": (facts(running(), organization_paused=True), Phase.STOPPING, None),
    "a hold": (facts(None, TEXT), Phase.HOLDING, (45, "notification:sms", WakeCause.HOLD)),
    "a hold since the run": (
        facts(AFTER_RUN, waiting(Source.SMS, NOW - seconds(20), period=DURING)),
        Phase.HOLDING,
        (40, "notification:sms", WakeCause.HOLD),
    ),
    "a hold beside another queued start": (
        facts(state(queued_at=QUEUED_AT), TEXT),
        Phase.HOLDING,
        (45, "notification:sms", WakeCause.HOLD),
    ),
    "a reminder within a hold": (
        facts(None, TEXT, reminder(NOW + seconds(20))),
        Phase.HOLDING,
        (20, "reminder", WakeCause.REMINDER),
    ),
    "a notification of its own from the run": (
        facts(OWN_RETRY, waiting(Source.AGENT, NOW - seconds(20), period=DURING)),
        Phase.BACKING_OFF,
        (1, "uncleared_notifications", WakeCause.RETRY),
    ),
    "a failure": (facts(FAILED), Phase.BACKING_OFF, (60, "retry_after_failure", WakeCause.RETRY)),
    "an interruption": (facts(INTERRUPTED), Phase.BACKING_OFF, (60, "restart_recovery", WakeCause.RETRY)),
    "a fifth failure": (quarantined(), Phase.QUARANTINED, (900, "retry_after_failure", WakeCause.RETRY)),
    "a notification in a quarantine": (
        replace(quarantined(), pending=(waiting(),)),
        Phase.QUARANTINED,
        (20, "notification:api", WakeCause.NOTIFICATION),
    ),
    "a sleep of no length": (
        facts(state(sleep_until=NOW - HOUR, last_started_at=NOW - seconds(0.2))),
        Phase.ASLEEP,
        (0.8, "sleep_elapsed", WakeCause.SLEEP_UNTIL),
    ),
}


@pytest.mark.parametrize("name", AHEAD)
def test_agent_rests_until_its_next_wake(name: str) -> None:
    seen, phase, wake = AHEAD[name]

    decision = decided(replace(seen, template_window_seconds=60))

    assert decision.phase is phase
    assert decision.wake == (wake and Wake(NOW + seconds(wake[0]), wake[1], wake[2]))


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


def test_clock_set_back_adds_at_most_one_window() -> None:
    held = waiting(Source.SMS, NOW + HOUR)
    decision = decided(facts(None, held, agent_window_seconds=60))
    assert decision.wake == Wake(NOW + MINUTE, "notification:sms", WakeCause.HOLD)

    later = facts(state(next_due_at=decision.next_at), held, agent_window_seconds=60)
    for now in (NOW + MINUTE / 2, NOW + MINUTE):
        assert decide(later, now, POLICY).wake == decision.wake, "the end that was decided first counts"


def test_future_reminder_wakes_at_its_moment() -> None:
    seen = facts(None, reminder(NOW + MINUTE, source=Source.SMS), agent_window_seconds=600)

    assert decided(seen).wake == Wake(NOW + MINUTE, "reminder", WakeCause.REMINDER)
    assert decide(seen, NOW + MINUTE, POLICY).due_wake(NOW + MINUTE) is not None


def test_retry_for_left_overs_is_dropped_once_they_are_cleared() -> None:
    backing_off = state(retry_at=NOW, retry_reason=WakeReason.UNCLEARED_NOTIFICATIONS)

    assert decided(facts(backing_off)) == Decision(Phase.ASLEEP)
    assert pending_retry_at(facts(backing_off, waiting(period=ActivationPeriod.BEFORE))) == NOW


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
    seen = facts(
        state(), waiting(Source.SMS), agent_window_seconds=of_agent, template_window_seconds=of_template
    )

    hold = hold_of(seen, NOW, POLICY)

    assert (hold.window_seconds if hold else 0) == expected


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


OWN = Budget(False, Decimal(5), Decimal(5))
SHARED = Budget(True, Decimal(9), Decimal(9))


def test_reached_budget_with_the_lowest_cap_is_returned() -> None:
    assert reached_budget((SHARED, OWN)) == OWN


def test_no_budget_is_reached_while_money_is_left() -> None:
    assert reached_budget(()) is None
    assert reached_budget((Budget(False, Decimal(5), Decimal("4.999999")),)) is None


@pytest.mark.parametrize("now", [NOW, NOW + 15 * HOUR, NOW + 15 * HOUR - seconds(0.000001)])
def test_budgets_are_renewed_at_the_next_utc_midnight(now: datetime) -> None:
    until = renewed_at(now)

    assert now < until <= now + 24 * HOUR
    assert (until.hour, until.minute, until.second, until.microsecond) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("failed", "refusals", "has_turn_left", "refusing"),
    [
        ([], 0, True, ()),
        (["send_sms", "memory", "send_sms"], 0, True, ("send_sms", "memory")),
        (["send_sms"], 1, True, ("send_sms",)),
        (["send_sms"], 2, True, ()),
        (["send_sms"], 0, False, ()),
    ],
    ids=["none failed", "each is named once", "second time", "third time", "last turn"],
)
def test_failed_calls_refuse_sleep_twice_in_a_run(
    failed: list[str], refusals: int, has_turn_left: bool, refusing: tuple[str, ...]
) -> None:
    assert calls_that_refuse_sleep(failed, refusals, has_turn_left=has_turn_left) == refusing
