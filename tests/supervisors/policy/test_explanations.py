"""Sentences on why an agent is in its phase, and what wakes it next."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from storage.agent_facts import ActivationPeriod, AgentFacts, AgentState
from storage.model import AgentStatus, Source
from supervisors.policy import explanations
from supervisors.policy.decisions import WakeReason, decide
from supervisors.policy.phases import Phase
from tests.storage.factories import HOUR, MINUTE, NOW
from tests.supervisors.agent_facts import POLICY, facts, reminder, running, seconds, state, waiting

LIMITS = explanations.StartLimits(slots=100)


def explained(seen: AgentFacts) -> tuple[Phase, str, str | None]:
    """Return the phase, why the agent is in it, and what wakes it next."""
    decision = decide(seen, NOW, POLICY)
    phase = explanations.phase_of(seen, decision, NOW)
    because = explanations.describe_cause(decision.wake) if decision.wake else None
    since = explanations.since(seen, decision, phase)
    return (
        phase,
        explanations.why(seen, decision, phase, NOW, since=since, limits=LIMITS),
        because,
    )


@pytest.mark.parametrize(
    ("waits", "ending"),
    [
        ([], "."),
        ([("provider openai", 0.9)], "."),
        ([("provider openai", 24.7)], "; waiting 24 s for provider openai."),
        ([("tool look_up", 12.0), ("tool check", 3.0)], "; waiting 12 s for tool look_up and 1 more."),
    ],
)
def test_running_agent_says_what_its_run_waits_for(waits: list[tuple[str, float]], ending: str) -> None:
    seen = facts(running())
    decision = decide(seen, NOW, POLICY)

    why = explanations.why(seen, decision, Phase.RUNNING, NOW, since=NOW, limits=LIMITS, waits=waits)

    assert why.startswith("Running since ")
    assert why.partition("woken by ")[2] == ending


def backing_off(reason: WakeReason, **fields: Any) -> AgentState:
    return replace(state(retry_at=NOW + MINUTE, retry_reason=reason), **fields)


HELD = facts(None, waiting(Source.SMS, NOW - seconds(20)), agent_window_seconds=60)

STORIES = [
    (
        facts(),
        Phase.ASLEEP,
        "Asleep until a high-priority notification, a reminder or a run request wakes it.",
        None,
    ),
    (
        facts(state(sleep_until=NOW + HOUR)),
        Phase.ASLEEP,
        "Asleep until 2126-11-21 10:00 UTC, as requested; any high-priority notification wakes it earlier.",
        "The sleep it was given ends.",
    ),
    (
        facts(state(sleep_until=NOW + HOUR, max_sleep_until=NOW + HOUR)),
        Phase.ASLEEP,
        (
            "Asleep until 2126-11-21 10:00 UTC, the longest it may sleep; "
            "any high-priority notification wakes it earlier."
        ),
        "The sleep it was given ends.",
    ),
    (
        facts(state(sleep_until=NOW + HOUR), reminder(NOW + MINUTE)),
        Phase.ASLEEP,
        (
            "Asleep until 2126-11-21 10:00 UTC, as requested; "
            "something else wakes it before that, at 2126-11-21 09:01 UTC."
        ),
        "A reminder falls due.",
    ),
    (
        facts(state(sleep_until=NOW, last_started_at=NOW)),
        Phase.ASLEEP,
        "About to start at 2126-11-21 09:00:01 UTC: its sleep ends before it may start again.",
        "The sleep it was given ends.",
    ),
    (
        facts(state(stopped_at=NOW - MINUTE), waiting(period=ActivationPeriod.STOPPED), reminder(NOW + HOUR)),
        Phase.ASLEEP,
        (
            "Stopped at 2126-11-21 08:59 UTC: notifications from before that do not start it. "
            "Asleep until a high-priority notification, a reminder or a run request wakes it."
        ),
        "A reminder falls due.",
    ),
    (
        HELD,
        Phase.HOLDING,
        (
            "Holding since 2126-11-21 08:59:40 UTC for the conversation to pause: it wakes 60 s "
            "after the last message, at 2126-11-21 09:04:40 UTC at the latest."
        ),
        "The debounce window over its messages ends.",
    ),
    (
        facts(state(queued_at=NOW, run_requested_at=NOW)),
        Phase.QUEUED,
        "Waiting for a run slot since 2126-11-21 09:00 UTC; all 100 were taken.",
        "A run was requested.",
    ),
    (
        facts(
            backing_off(WakeReason.UNCLEARED_NOTIFICATIONS), waiting(period=ActivationPeriod.BEFORE, count=2)
        ),
        Phase.BACKING_OFF,
        (
            "Backing off until 2126-11-21 09:01 UTC: "
            "its last run left 2 high-priority notifications uncleared."
        ),
        "It tries again to clear the notifications that its last run left.",
    ),
    (
        facts(
            backing_off(WakeReason.UNCLEARED_NOTIFICATIONS, stopped_at=NOW - HOUR),
            waiting(period=ActivationPeriod.BEFORE),
            waiting(period=ActivationPeriod.STOPPED, count=3),
            reminder(NOW + seconds(30)),
        ),
        Phase.BACKING_OFF,
        (
            "Backing off until 2126-11-21 09:01 UTC: "
            "its last run left 1 high-priority notification uncleared. "
            "Something else wakes it before that, at 2126-11-21 09:00:30 UTC."
        ),
        "A reminder falls due.",
    ),
    (
        facts(
            backing_off(WakeReason.UNCLEARED_NOTIFICATIONS, failures=3),
            waiting(period=ActivationPeriod.BEFORE),
        ),
        Phase.BACKING_OFF,
        (
            "Backing off until 2126-11-21 09:01 UTC: "
            "its last run left 1 high-priority notification uncleared. "
            "It cleared none of them, which counts as failure 3 in a row; 5 quarantine it."
        ),
        "It tries again to clear the notifications that its last run left.",
    ),
    (
        facts(backing_off(WakeReason.RETRY_AFTER_FAILURE, failures=1, last_error="The model is away.")),
        Phase.BACKING_OFF,
        "Backing off until 2126-11-21 09:01 UTC after a failure: The model is away.",
        "It tries again after a failure.",
    ),
    (
        facts(backing_off(WakeReason.RETRY_AFTER_FAILURE, failures=5, last_error="The model is away.")),
        Phase.QUARANTINED,
        (
            "Quarantined until 2126-11-21 09:01 UTC after 5 failures in a row, the last one: "
            "The model is away. A run request starts it at once, "
            "a high-priority notification at most once a minute."
        ),
        "It tries again after a failure.",
    ),
    (
        facts(running(last_wake_reason="written by a client"), wake_reason="notification:sms"),
        Phase.RUNNING,
        "Running since 2126-11-21 08:59 UTC, woken by a high-priority notification from sms.",
        None,
    ),
    (
        facts(running(stopped_at=NOW)),
        Phase.STOPPING,
        "Its run was asked to stop at 2126-11-21 09:00 UTC and has not ended yet.",
        None,
    ),
    (
        facts(state(status=AgentStatus.ARCHIVED, stopped_at=NOW)),
        Phase.ARCHIVED,
        "Archived since 2126-11-21 09:00 UTC; nothing wakes it until it is restored.",
        None,
    ),
    (
        replace(HELD, organization_paused=True),
        Phase.PAUSED,
        "Its organization is paused; nothing starts until the pause ends.",
        None,
    ),
]


@pytest.mark.parametrize(("seen", "phase", "why", "because"), STORIES, ids=[row[1] for row in STORIES])
def test_phase_is_explained_in_a_sentence(
    seen: AgentFacts, phase: Phase, why: str, because: str | None
) -> None:
    assert explained(seen) == (phase, why, because)


def test_stories_cover_every_phase() -> None:
    assert {phase for _, phase, _, _ in STORIES} == set(Phase)


@pytest.mark.parametrize("reason", [*WakeReason, "notification:sms"])
def test_every_wake_reason_is_explained_in_words(reason: str) -> None:
    _, why, _ = explained(facts(running(), wake_reason=str(reason)))

    assert why.startswith("Running since 2126-11-21 08:59 UTC, woken by ")
    assert "_" not in why


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (facts(), NOW - HOUR),  # its creation
        (facts(state(last_ended_at=NOW - MINUTE)), NOW - MINUTE),
        (facts(state(last_ended_at=NOW - MINUTE, stopped_at=NOW)), NOW),
        (HELD, NOW - seconds(20)),
        (facts(running()), NOW - MINUTE),
        (facts(running(stopped_at=NOW)), NOW),
        (facts(state(queued_at=NOW, run_requested_at=NOW - MINUTE)), NOW),
        (facts(state(last_ended_at=NOW - MINUTE), organization_paused=True), None),  # its begin is not stored
    ],
)
def test_since_is_the_moment_at_which_the_phase_began(seen: AgentFacts, expected: datetime | None) -> None:
    decision = decide(seen, NOW, POLICY)

    assert explanations.since(seen, decision, explanations.phase_of(seen, decision, NOW)) == expected


@pytest.mark.parametrize(
    ("amount", "expected"), [("5", "5.00"), ("5.1", "5.10"), ("0.000001", "0.000001"), ("1E+3", "1000.00")]
)
def test_dollars_writes_an_amount_in_full(amount: str, expected: str) -> None:
    assert explanations.dollars(Decimal(amount)) == expected
