"""Previews: the agent now and then, with the sentences of the engine."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.agent_facts import AgentFacts, Budget
from storage.model import AgentStatus, Priority, Source
from supervisors.engine.effects import after_owned_fields
from supervisors.engine.messages import OwnedFieldsRequest
from supervisors.engine.snapshot import Present
from supervisors.errors import AgentArchived
from supervisors.policy.explanations import WHY_AGENT_PAUSED, StartLimits
from supervisors.policy.phases import Phase
from supervisors.preview import AFTER_START, RUN_UNKNOWN, Event, Outlook, preview
from tests.storage.factories import HOUR, NOW
from tests.supervisors.agent_facts import (
    POLICY,
    facts,
    reminder,
    running,
    seconds,
    some_facts,
    state,
    waiting,
)

SMS = Event(Source.SMS, Priority.HIGH)
API = Event(Source.API, Priority.HIGH)
FIVE_TEXTS = Event(Source.SMS, Priority.HIGH, count=5, seconds_apart=2)
LIMITS = StartLimits(10)
SPENT = Budget(False, Decimal(5), Decimal(6))


def then(of: AgentFacts, changed: AgentFacts | None = None, **asked: Any) -> Outlook:
    options = {name: asked.pop(name) for name in ("has_room", "limits", "run_is_stopping") if name in asked}
    present = Present(of, NOW, POLICY, **{"limits": LIMITS, **options})
    return preview(present, changed or of, **asked).then


def written(of: AgentFacts, **fields: Any) -> Outlook:
    """Return the agent after a client wrote fields that its supervisor owns."""
    return then(of, after_owned_fields(of, OwnedFieldsRequest(**fields), NOW, run_is_stopping=False))


def conversing(window_seconds: int = 60, **fields: Any) -> AgentFacts:
    return facts(agent_window_seconds=window_seconds, **fields)


def wakes_at(outlook: Outlook) -> datetime | None:
    return outlook.next_wake.at if outlook.next_wake else None


@pytest.mark.parametrize(
    ("window_seconds", "event", "until"), [(60, SMS, 60), (5, SMS, 5), (60, FIVE_TEXTS, 68)]
)
def test_texts_wait_for_the_window(window_seconds: int, event: Event, until: int) -> None:
    said = then(conversing(), conversing(window_seconds), event=event)

    assert said.phase is Phase.HOLDING
    assert said.why.startswith("Holding since 2")
    assert wakes_at(said) == NOW + seconds(until)
    assert said.next_wake is not None
    assert said.next_wake.because == "The debounce window over its messages ends."


QUARANTINED = state(
    failures=5,
    retry_at=NOW + HOUR,
    retry_reason="retry_after_failure",
    last_started_at=NOW - seconds(20),
    last_ended_at=NOW - seconds(10),
)
ARCHIVED = state(status=AgentStatus.ARCHIVED, stopped_at=NOW - HOUR)
BRIEF_SLEEP = state(sleep_until=NOW + seconds(5))
LATER = Event(Source.SMS, Priority.HIGH, NOW + HOUR)
ZERO = Budget(False, Decimal(0), Decimal(0))

# An agent, what comes, its phase then, in how many seconds it wakes, and a part of why.
COMING: dict[str, tuple[AgentFacts, dict[str, Any], Phase | None, int | None, str]] = {
    "texts further apart than the window": (conversing(1), {"event": FIVE_TEXTS}, None, 1, AFTER_START),
    "an immediate event": (
        conversing(),
        {"event": API},
        Phase.RUNNING,
        None,
        "a high-priority notification from api",
    ),
    "a low priority": (conversing(), {"event": Event(Source.SMS, Priority.LOW)}, Phase.ASLEEP, None, ""),
    "a reminder": (facts(), {"event": LATER}, Phase.ASLEEP, 3600, ""),
    "a moment before a reminder": (
        facts(None, reminder(NOW + 2 * HOUR)),
        {"at": NOW + HOUR},
        Phase.ASLEEP,
        7200,
        "",
    ),
    "an event after the next wake": (
        facts(BRIEF_SLEEP),
        {"event": SMS, "at": NOW + HOUR},
        None,
        5,
        AFTER_START,
    ),
    "no free run slot": (facts(), {"event": API, "has_room": False}, Phase.QUEUED, None, "all 10 were taken"),
    "an archived agent": (facts(ARCHIVED), {"event": SMS}, Phase.ARCHIVED, None, ""),
    "a quarantined agent": (facts(QUARANTINED), {"event": API}, Phase.QUARANTINED, 40, ""),
    "a budget of zero": (
        facts(budgets=(ZERO,)),
        {"event": API, "at": NOW + 90 * HOUR},
        Phase.ASLEEP,
        None,
        "Over its budget of 0.00 USD a day; it starts no run at all",
    ),
}


@pytest.mark.parametrize("name", COMING)
def test_preview_says_what_comes_of_an_event(name: str) -> None:
    of, asked, phase, wakes_in, why = COMING[name]

    said = then(of, **asked)

    assert said.phase is phase
    assert wakes_at(said) == (None if wakes_in is None else NOW + seconds(wakes_in))
    assert why in said.why


def test_future_of_running_agent_is_unknown() -> None:
    assert then(facts(running()), event=SMS).phase is Phase.RUNNING
    assert then(facts(running()), at=NOW + HOUR) == Outlook(None, RUN_UNKNOWN, None)


def test_spent_budget_delays_to_the_next_day() -> None:
    said = then(facts(budgets=(SPENT,)), event=API)

    assert wakes_at(said) == NOW.replace(day=NOW.day + 1, hour=0, minute=0, second=0, microsecond=0)
    assert said.next_wake is not None
    assert said.next_wake.because.startswith("Its budget is renewed.")


def test_raised_cap_starts_what_waited() -> None:
    raised = Budget(False, Decimal(9), Decimal(6))
    said = then(facts(None, waiting(), budgets=(SPENT,)), facts(None, waiting(), budgets=(raised,)))

    assert said.phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("of", "fields", "phase"),
    [
        (facts(), {"status": AgentStatus.RUNNING}, Phase.RUNNING),
        (facts(running()), {"status": AgentStatus.RUNNING}, Phase.RUNNING),
        (facts(running()), {"status": AgentStatus.SLEEPING}, Phase.STOPPING),
        (facts(running()), {"paused": True}, Phase.STOPPING),
        (facts(organization_paused=True), {"status": AgentStatus.RUNNING}, Phase.PAUSED),
        (
            facts(budgets=(Budget(True, Decimal(1), Decimal(1)),)),
            {"status": AgentStatus.RUNNING},
            Phase.ASLEEP,
        ),
        (facts(), {"status": AgentStatus.ARCHIVED}, Phase.ARCHIVED),
        (facts(state(paused=True), waiting()), {"paused": False}, Phase.RUNNING),
    ],
)
def test_written_fields_have_the_effects_of_a_patch(
    of: AgentFacts, fields: dict[str, Any], phase: Phase
) -> None:
    assert written(of, **fields).phase is phase


def test_pause_is_explained_by_its_sentence() -> None:
    assert written(facts(), paused=True).why == WHY_AGENT_PAUSED


def test_sleep_of_archived_agent_is_refused() -> None:
    with pytest.raises(AgentArchived):
        written(facts(state(status=AgentStatus.ARCHIVED)), sleep_until=NOW)


def test_sleep_is_limited_by_the_cap_of_the_last_run() -> None:
    capped = state(last_started_at=NOW - HOUR, last_ended_at=NOW - HOUR, max_sleep_until=NOW + HOUR)

    assert wakes_at(written(facts(capped), sleep_until=NOW + 5 * HOUR)) == NOW + HOUR


@given(
    st.sampled_from(AgentStatus).flatmap(some_facts),
    st.none() | st.builds(Event, st.sampled_from(Source), st.sampled_from(Priority), count=st.integers(1, 4)),
    st.none() | st.integers(0, 90_000).map(lambda on: NOW + seconds(on)),
)
def test_any_agent_has_a_preview_in_words(of: AgentFacts, event: Event | None, at: datetime | None) -> None:
    said = then(of, event=event, at=at)

    assert said.why[0].isupper()
    assert said.why[-1] in ".…"
