"""What follows for a parked call: by time, by a decision, and by an answer."""

from dataclasses import replace
from typing import Any

import pytest

from storage.events.model import EventType
from storage.ids import new_id
from storage.model import Priority
from storage.parked_calls import CallKind, CallState, Lost, PresentCall
from supervisors.policy.parked_calls import (
    MAX_SHOWN,
    CallAnswer,
    Decision,
    GrantTerms,
    call_digest,
    decide,
    end_call,
    look,
    next_look,
    postpone,
    receive_result,
    what_happened,
)
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND, agent, organization, parked_call

DAY = 24 * HOUR
LEASE = 5 * MINUTE
LATER = NOW + HOUR
APPROVED = Decision(approve=True)
DENIED = Decision(approve=False)


def pending(**fields: Any) -> PresentCall:
    """Make a call of a tool for which a person has been asked at NOW, for a week."""
    given = {name: fields.pop(name) for name in ("lost", "is_idempotent") if name in fields}
    call = parked_call(agent(organization().id), **{"tool_id": new_id(), **fields})
    values = {name: getattr(call, name) for name in call.__slots__}
    return PresentCall(**values, **given)


def question(**fields: Any) -> PresentCall:
    return pending(tool_id=None, kind=CallKind.QUESTION, **fields)


def calling(**fields: Any) -> PresentCall:
    return pending(state=CallState.CALLING, due_at=NOW + LEASE, **fields)


@pytest.mark.parametrize(
    ("expires", "moments"),
    [
        (7 * DAY, [3 * HOUR, 6 * DAY, 7 * DAY]),
        (4 * HOUR, [3 * HOUR, 4 * HOUR]),
        (2 * HOUR, [1.5 * HOUR, 2 * HOUR]),
        (None, [3 * HOUR]),
    ],
)
def test_pending_call_is_looked_at_for_reminders_and_its_end(expires: Any, moments: list[Any]) -> None:
    call, found, moment = pending(expires_at=expires and NOW + expires), [], NOW
    while (following := next_look(call, moment)) is not None:
        found.append(following - NOW)
        moment = following
    assert found == moments


def test_reminders_that_an_outage_missed_come_once() -> None:
    call = pending()
    step = look(call, NOW + 6.5 * DAY, LEASE)

    assert step is not None
    assert step.event is EventType.APPROVAL_REMINDED
    assert step.after.due_at == call.expires_at


def test_call_that_is_not_due_is_left_alone() -> None:
    assert look(pending(), NOW, LEASE) is None
    assert look(pending(due_at=None), NOW, LEASE) is None
    assert look(calling(), NOW + LEASE - SECOND, LEASE) is None
    assert look(pending(state=CallState.DONE, ended_at=NOW, due_at=None), NOW + DAY, LEASE) is None


@pytest.mark.parametrize("state", [CallState.PENDING, CallState.DUE])
@pytest.mark.parametrize("lost", [each for each in Lost if each])
def test_pointless_call_is_withdrawn_with_a_sentence(state: CallState, lost: Lost) -> None:
    step = look(pending(state=state, lost=lost), NOW, LEASE)

    assert step is not None
    assert (step.after.state, step.event) == (CallState.WITHDRAWN, EventType.APPROVAL_WITHDRAWN)
    assert step.after.outcome.startswith("It was withdrawn: the ")
    assert (step.notice is None) is (lost is Lost.AGENT_DELETED)


@pytest.mark.parametrize("state", [CallState.CALLING, CallState.WAITING])
def test_call_that_was_made_is_not_withdrawn(state: CallState) -> None:
    assert look(pending(state=state, lost=Lost.TOOL_CHANGED, due_at=LATER), NOW, LEASE) is None


def test_due_call_is_claimed_for_a_lease() -> None:
    step = look(pending(state=CallState.DUE, due_at=NOW), NOW, LEASE)

    assert step is not None
    assert (step.after.state, step.after.due_at) == (CallState.CALLING, NOW + LEASE)


@pytest.mark.parametrize(("is_idempotent", "state"), [(True, CallState.CALLING), (False, CallState.FAILED)])
def test_call_whose_lease_is_over_is_repeated_only_if_harmless(is_idempotent: bool, state: CallState) -> None:
    step = look(calling(is_idempotent=is_idempotent), NOW + LEASE, LEASE)

    assert step is not None
    assert step.after.state is state
    assert (step.notice is None) is is_idempotent


def test_waiting_call_with_a_remote_task_is_polled_under_a_lease() -> None:
    call = pending(state=CallState.WAITING, remote={"task": "1"}, due_at=NOW)
    step = look(call, NOW, LEASE)

    assert step is not None
    assert (step.after.state, step.after.due_at) == (CallState.WAITING, NOW + LEASE)


def test_expired_question_says_that_nobody_answered() -> None:
    step = look(question(), NOW + 7 * DAY, LEASE)

    assert step is not None
    assert step.notice is not None
    assert step.event is EventType.APPROVAL_EXPIRED
    assert step.notice.priority is Priority.LOW
    assert "Nobody has answered by" in step.notice.body


# Decisions


def test_same_decision_again_changes_nothing() -> None:
    first = decide(pending(), replace(APPROVED, note="Fine."), "user:1", LATER)
    decided = pending(state=first.after.state, decision_digest=first.after.decision_digest)

    again = decide(decided, APPROVED, "user:2", LATER)

    assert again.refusal == ""
    assert again.after == decided
    assert again.event is None


@pytest.mark.parametrize(
    "other",
    [
        DENIED,
        Decision(approve=True, arguments="{}"),
        Decision(approve=True, grant=GrantTerms(is_exact=True)),
    ],
)
def test_other_decision_is_refused_with_what_happened(other: Decision) -> None:
    first = decide(pending(), APPROVED, "user:1", LATER).after
    decided = pending(state=first.state, decision_digest=first.decision_digest, decided_at=LATER)

    step = decide(replace(decided, decided_by="user:1"), other, "user:2", LATER)

    assert step.refusal == "It was approved by user:1 at 2126-11-21 10:00 UTC."
    assert step.event is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (pending(lost=Lost.TOOL_CHANGED), "It was withdrawn: the tool has changed since."),
        (pending(expires_at=NOW + MINUTE), "Nobody has decided by 2126-11-21 09:01 UTC."),
    ],
)
def test_decision_that_comes_too_late_ends_the_call(call: PresentCall, words: str) -> None:
    step = decide(call, APPROVED, "user:1", LATER)

    assert step.refusal == words
    assert step.after.ended_at == LATER
    assert step.grant is None
    assert step.event is not EventType.APPROVAL_DECIDED


def test_declined_question_ends_with_that() -> None:
    step = decide(question(), replace(DENIED, note="Ask Ada."), "user:1", LATER)

    assert step.after.state is CallState.DENIED
    assert step.notice is not None
    assert "It was declined by user:1" in step.notice.body
    assert "Ask Ada." in step.notice.body


def test_answered_input_is_due_to_go_on() -> None:
    step = decide(pending(kind=CallKind.INPUT), Decision(approve=True, answer="1"), "user:1", LATER)

    assert (step.after.state, step.after.due_at, step.after.answer) == (CallState.DUE, LATER, "1")
    assert step.notice is None


@pytest.mark.parametrize(
    ("approval", "decision", "covers"),
    [
        ("always", APPROVED, None),
        ("first_use", APPROVED, "any"),
        ("first_use", DENIED, None),
        ("first_use", Decision(approve=True, grant=GrantTerms(is_exact=True)), "exact"),
        ("always", Decision(approve=True, grant=GrantTerms(is_exact=False, schema={"a": 1})), "schema"),
        ("always", Decision(approve=False, grant=GrantTerms(is_exact=True)), None),
    ],
)
def test_grant_is_what_the_decision_says(approval: str, decision: Decision, covers: str | None) -> None:
    call = pending(approval=approval)
    grant = decide(call, decision, "user:1", LATER).grant

    assert (grant is None) is (covers is None)
    if grant is not None and call.tool_id is not None:
        exact = call_digest(call.tool_id, {"amount": 80})
        expected = {"any": (None, None), "exact": (exact, None), "schema": (None, {"a": 1})}
        assert (grant.digest, grant.arguments_schema) == expected[covers or ""]


def test_exact_grant_is_for_edited_arguments() -> None:
    decision = Decision(approve=True, arguments='{"amount":60}', grant=GrantTerms(is_exact=True))
    call = pending()
    grant = decide(call, decision, "user:1", LATER).grant

    assert grant is not None
    assert call.tool_id is not None
    assert grant.digest == call_digest(call.tool_id, {"amount": 60})


def test_digest_is_of_arguments_and_tool() -> None:
    one, other = new_id(), new_id()

    assert call_digest(one, {"a": 1, "b": 2}) == call_digest(one, {"b": 2, "a": 1})
    assert call_digest(one, {"a": 1}) != call_digest(other, {"a": 1})
    assert call_digest(one, {"a": 1}) != call_digest(one, {"a": 2})


# Answers


@pytest.mark.parametrize("rule", [lambda *args: end_call(args[0], CallAnswer(1), *args[1:]), postpone])
def test_only_the_holder_of_the_lease_stores_what_came(rule: Any) -> None:
    call = calling()

    assert rule(call, NOW + LEASE, NOW) is not None
    assert rule(call, NOW + LEASE + SECOND, NOW) is None
    assert rule(replace(call, ended_at=NOW), NOW + LEASE, NOW) is None


def test_call_that_could_not_be_made_is_due_again_soon() -> None:
    step = postpone(calling(), NOW + LEASE, NOW)

    assert step is not None
    assert (step.after.state, step.after.due_at) == (CallState.DUE, NOW + 10 * SECOND)


def test_question_of_the_tool_asks_a_person_again() -> None:
    schema = {"type": "boolean"}
    answer = CallAnswer(question="Sure?", schema=schema, remote={"state": 1}, expires_at=NOW + DAY)
    step = end_call(calling(), answer, NOW + LEASE, NOW)

    assert step is not None
    assert (step.after.kind, step.after.state) == (CallKind.INPUT, CallState.PENDING)
    assert (step.after.question, step.after.remote) == ("Sure?", {"state": 1})
    assert step.event is EventType.APPROVAL_REQUESTED


def test_long_result_is_kept_as_the_payload() -> None:
    step = end_call(calling(), CallAnswer("x" * MAX_SHOWN), NOW + LEASE, NOW)

    assert step is not None
    assert step.notice is not None
    assert step.notice.payload == '"' + "x" * MAX_SHOWN + '"'
    assert "Open it with the tool open_sms_attachment" in step.notice.body


@pytest.mark.parametrize("state", [each for each in CallState if each not in {"waiting", "calling"}])
def test_call_that_waits_for_no_result_takes_none(state: CallState) -> None:
    step = receive_result(pending(state=state), CallAnswer(1), NOW)

    assert step.refusal
    assert step.notice is None


def test_what_happened_names_the_decider_and_the_end() -> None:
    call = pending(state=CallState.DONE, decided_at=NOW, decided_by="key:1", outcome="The tool has answered.")

    assert what_happened(call) == "It was approved by key:1 at 2126-11-21 09:00 UTC. The tool has answered."
