"""The sentences of previews, and the agent before and after."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.agent_facts import AgentFacts, Budget
from storage.model import AgentStatus, Priority, Source
from supervisors.engine.snapshot import Present
from supervisors.policy.explanations import StartLimits
from supervisors.policy.phases import Phase
from supervisors.preview.changes import (
    NEXT_RUN,
    NOT_WHILE_ARCHIVED,
    REQUEST_OVER_BUDGET,
    REQUEST_PAUSED,
    REQUEST_RUNNING,
    STOPS_RUN,
    Change,
)
from supervisors.preview.course import one_by_one
from supervisors.preview.paths import Event
from supervisors.preview.preview import Preview, preview
from supervisors.preview.sentences import (
    AFTER_START,
    NO_ROOM,
    OTHERS,
    QUARANTINED,
    RUN_UNKNOWN,
    UNLESS,
)
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


def ask(of: AgentFacts, **asked: Any) -> Preview:
    options = {name: asked.pop(name) for name in ("has_room", "limits", "run_is_stopping") if name in asked}
    return preview(Present(of, NOW, POLICY, **{"limits": LIMITS, **options}), **asked)


def conversing(window_seconds: int = 60, **fields: Any) -> AgentFacts:
    return facts(agent_window_seconds=window_seconds, **fields)


def clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" + (f"{moment:%S}".replace("00", "") and f":{moment:%S}") + " UTC"


def test_text_waits_for_the_window_and_wakes_once() -> None:
    said = ask(conversing(), event=SMS)

    assert said.sentences == [
        f"If an SMS came now, it would wait until {clock(NOW + seconds(60))} and wake once.",
        "The debounce window over its messages ends.",
        UNLESS,
    ]
    assert (said.now.phase, said.then.phase) == (Phase.ASLEEP, Phase.HOLDING)
    assert [(wake.at, wake.reason) for wake in said.wakes] == [(NOW + seconds(60), "notification:sms")]


def test_another_window_is_compared_in_the_same_sentence() -> None:
    said = ask(conversing(), event=SMS, change=Change(agent_window_seconds=5))

    until, earlier = clock(NOW + seconds(60)), clock(NOW + seconds(5))
    assert said.sentences[0] == (
        f"If an SMS came now, it would wait until {until} and wake once; "
        f"with a debounce window of 5 s, at {earlier}."
    )
    assert "A conversation would wake it when it has paused for 5 s, not for 60 s." in said.sentences
    assert said.wakes[0].at == NOW + seconds(5)


def test_five_texts_in_a_row_wake_once() -> None:
    said = ask(conversing(), event=FIVE_TEXTS)

    until = clock(NOW + seconds(68))
    assert said.sentences[0] == (f"If 5 SMS came now, 2 s apart, it would wait until {until} and wake once.")


def test_texts_further_apart_than_window_promise_only_first_wake() -> None:
    said = ask(conversing(1), event=FIVE_TEXTS)

    assert said.sentences[0] == (
        f"If 5 SMS came now, 2 s apart, it would wake at {clock(NOW + seconds(1))}, when 1 of them has come."
    )
    assert OTHERS in said.sentences
    assert said.then.phase is None


def test_immediate_event_wakes_at_once() -> None:
    said = ask(conversing(), event=API)

    assert said.sentences == ["If a notification from api came now, it would wake at once."]
    assert said.then.phase is Phase.RUNNING
    assert said.wakes[0].at == NOW


def test_low_priority_wakes_nobody() -> None:
    said = ask(conversing(), event=Event(Source.SMS, Priority.LOW))

    assert said.sentences[0].startswith("If a low-priority SMS came now, it would not wake")
    assert said.wakes == []


def test_reminder_wakes_when_it_is_due() -> None:
    said = ask(facts(), event=Event(Source.SMS, Priority.HIGH, NOW + HOUR))

    at = clock(NOW + HOUR)
    assert said.sentences[0] == f"If a reminder for {at} came now, it would wake once, at {at}."
    assert said.then.phase is Phase.ASLEEP


def test_event_after_the_next_wake_is_not_decided() -> None:
    said = ask(facts(state(sleep_until=NOW + seconds(5))), event=SMS, at=NOW + HOUR)

    assert f"it would have started before that, at {clock(NOW + seconds(5))}." in said.sentences[0]
    assert AFTER_START in said.sentences
    assert said.then.phase is None


def test_run_that_may_not_start_is_not_promised() -> None:
    said = ask(facts(), event=API, has_room=False)

    assert said.sentences == [
        "If a notification from api came now, it would wait, because all 10 were taken."
    ]
    assert (said.then.phase, said.wakes) == (Phase.QUEUED, [])


def test_running_agent_keeps_its_run_awake() -> None:
    said = ask(facts(running()), event=SMS)

    assert said.sentences == [
        "If an SMS came now, its run could not sleep before that is cleared.",
        "If its run ends without having cleared that, it is due to start again.",
        RUN_UNKNOWN,
    ]
    assert (said.then.phase, said.wakes) == (Phase.RUNNING, [])


def test_run_that_is_stopped_by_a_pause_promises_no_start() -> None:
    said = ask(facts(running(), organization_paused=True), event=API)

    assert "it would not wake during the pause; its run was asked to stop." in said.sentences[0]
    assert "due to start" not in " ".join(said.sentences)


def test_spent_budget_is_named_during_a_run() -> None:
    said = ask(facts(running(), budgets=(Budget(False, Decimal(5), Decimal(6)),)), event=API)

    assert "Over its budget of 5.00 USD a day; it starts no run before" in " ".join(said.sentences)


def test_later_start_names_what_it_still_needs() -> None:
    draining = StartLimits(10, may_start=False)

    assert NO_ROOM in ask(conversing(), event=SMS, has_room=False).sentences
    assert "no run may start" in " ".join(ask(conversing(), event=SMS, limits=draining).sentences)


def test_future_of_running_agent_is_unknown() -> None:
    said = ask(facts(running()), at=NOW + HOUR)

    assert said.sentences == [RUN_UNKNOWN]
    assert said.then.phase is None


def test_archived_agent_keeps_what_comes() -> None:
    said = ask(facts(state(status=AgentStatus.ARCHIVED, stopped_at=NOW - HOUR)), event=SMS)

    assert "because it is archived: what comes waits until it is restored" in said.sentences[0]
    assert said.wakes == []


def test_quarantined_agent_starts_once_a_minute() -> None:
    quarantined = state(
        failures=5,
        retry_at=NOW + HOUR,
        retry_reason="retry_after_failure",
        last_started_at=NOW - seconds(20),
        last_ended_at=NOW - seconds(10),
    )
    said = ask(facts(quarantined), event=API)

    assert said.sentences[1] == QUARANTINED
    assert said.wakes[0].at == NOW + seconds(40)


def test_spent_budget_delays_to_the_next_day() -> None:
    spent = Budget(False, Decimal(5), Decimal(6))
    said = ask(facts(budgets=(spent,)), event=API)

    midnight = NOW.replace(day=NOW.day + 1, hour=0, minute=0, second=0, microsecond=0)
    assert said.wakes[0].at == midnight
    assert said.sentences[1].startswith("Its budget is renewed.")


def test_zero_budget_never_wakes() -> None:
    said = ask(facts(budgets=(Budget(False, Decimal(0), Decimal(0)),)), event=API)

    assert said.sentences == [
        "If a notification from api came now, it would not wake, because its budget is 0.00 USD a day."
    ]


def test_raised_cap_starts_what_waited() -> None:
    spent = Budget(False, Decimal(5), Decimal(6))
    said = ask(facts(None, waiting(), budgets=(spent,)), change=Change(cap_usd=Decimal(9)))

    assert said.sentences[0].startswith(
        "With a cap of 9.00 USD a day, it starts at once; without, it wakes at "
    )
    assert "Of its cap of 9.00 USD a day 6.00 USD are spent today." in said.sentences


@pytest.mark.parametrize(
    ("of", "change", "said"),
    [
        (facts(running()), Change(status=AgentStatus.RUNNING), REQUEST_RUNNING),
        (facts(running()), Change(status=AgentStatus.SLEEPING), STOPS_RUN),
        (facts(running()), Change(paused=True), STOPS_RUN),
        (facts(), Change(cap_usd=Decimal(0)), "A cap of 0 USD a day allows no run."),
        (facts(running()), Change(max_sleep_hours=3), NEXT_RUN),
        (facts(organization_paused=True), Change(status=AgentStatus.RUNNING), REQUEST_PAUSED),
        (
            facts(budgets=(Budget(True, Decimal(1), Decimal(1)),)),
            Change(status=AgentStatus.RUNNING),
            REQUEST_OVER_BUDGET,
        ),
        (facts(state(status=AgentStatus.ARCHIVED)), Change(sleep_until=NOW), NOT_WHILE_ARCHIVED),
        (
            facts(running()),
            Change(cap_usd=Decimal(1), spent_usd=Decimal(2)),
            "end at the next call of a model",
        ),
    ],
)
def test_effects_that_depend_on_the_agent_are_said(of: AgentFacts, change: Change, said: str) -> None:
    assert said in " ".join(ask(of, change=change).sentences)


def test_sleep_is_limited_by_the_cap_of_the_last_run() -> None:
    capped = state(last_started_at=NOW - HOUR, last_ended_at=NOW - HOUR, max_sleep_until=NOW + HOUR)
    said = ask(facts(capped), change=Change(sleep_until=NOW + 5 * HOUR))

    assert f"It may sleep until {clock(NOW + HOUR)} at the longest." in said.sentences
    assert said.then.next_wake is not None
    assert said.then.next_wake.at == NOW + HOUR


def test_pause_delays_a_wake_until_it_ends() -> None:
    said = ask(conversing(organization_paused=True), event=SMS)

    at = clock(NOW + seconds(60))
    assert said.sentences[0].endswith(f"it would wake when that ends, but not before {at}.")


def test_moment_before_the_next_wake_says_what_comes_next() -> None:
    said = ask(facts(None, reminder(NOW + 2 * HOUR)), at=NOW + HOUR)

    assert said.sentences[0] == f"If nothing else happens, it is asleep at {clock(NOW + HOUR)}."
    assert said.sentences[1] == f"It wakes next at {clock(NOW + 2 * HOUR)}. A reminder falls due."


def test_reminders_become_active_one_by_one() -> None:
    spent = Budget(False, Decimal(5), Decimal(6))
    both = facts(None, reminder(NOW + HOUR), budgets=(spent,))
    said = ask(one_by_one(both, [NOW + HOUR, NOW + 90 * HOUR]), at=NOW + 2 * HOUR)

    assert said.wakes[0].reason == "reminder"
    assert said.wakes[0].at < NOW + 24 * HOUR


@given(
    st.sampled_from(AgentStatus).flatmap(some_facts),
    st.none() | st.builds(Event, st.sampled_from(Source), st.sampled_from(Priority), count=st.integers(1, 4)),
    st.none()
    | st.builds(Change, agent_window_seconds=st.integers(0, 90), status=st.sampled_from(AgentStatus)),
    st.none() | st.integers(0, 90_000).map(lambda on: NOW + seconds(on)),
)
def test_any_agent_has_a_preview_in_words(
    of: AgentFacts, event: Event | None, change: Change | None, at: datetime | None
) -> None:
    said = ask(of, event=event, change=change, at=at)

    assert said.sentences
    assert all(sentence[0].isupper() and sentence[-1] in ".…" for sentence in said.sentences)
    assert all(wake.at >= NOW for wake in said.wakes)
