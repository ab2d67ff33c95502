"""Parked calls: what follows for one when time passes, a person decides, or a result comes. Pure functions.

Each returns the step that is stored while the call is locked; None if there is nothing to do any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import orjson

from storage.approval_grants import ApprovalGrant
from storage.events.model import EventType
from storage.ids import derive_id
from storage.model import Priority
from storage.parked_calls import (
    CallKind,
    CallState,
    CallStep,
    Lost,
    Notice,
    ParkedCall,
    PendingCalls,
    PresentCall,
)
from storage.postgres.json_values import decoded, to_json
from supervisors.text import cut, excerpt, format_timestamp, payload_hint

FIRST_REMINDER = timedelta(hours=3)
LAST_REMINDER = timedelta(days=1)  # before it expires; after a quarter of a shorter wait
RETRY = timedelta(seconds=10)  # of a call that could not be made
MAX_SHOWN = 4000  # characters of a result in a notification; a longer one is its payload
MAX_ARGUMENTS = 500  # characters of them in a notification
MAX_NAME = 100
FIRST_USE = "first_use"
UNKNOWN_EFFECT = "The service ended during the call, which may or may not have had an effect."
ASKS_PERSON = frozenset({CallKind.APPROVAL, CallKind.QUESTION, CallKind.INPUT})
ANSWERED = frozenset({CallKind.QUESTION, CallKind.INPUT})


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """What a person also allows from now on: exactly these arguments, those that fit a schema, or any."""

    is_exact: bool
    schema: Any = None
    until: datetime | None = None
    max_uses: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person has decided. Edited `arguments`, and the `answer` to a question, are JSON texts.

    The caller has validated them.
    """

    approve: bool
    note: str = ""
    arguments: str | None = None
    answer: str | None = None
    grant: GrantTerms | None = None

    @property
    def digest(self) -> bytes:
        """Return the same for the same decision, whatever its note."""
        terms = self.grant
        granted = terms and [terms.is_exact, terms.schema, format_timestamp(terms.until), terms.max_uses]
        return _digest([self.approve, self.arguments, self.answer, granted])


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What a call was answered: a value, an error, or that the rest comes later.

    `expires_at` is set if the result comes later, by then at the latest; `poll_at` if it must be asked for.
    A `question` is one of an MCP server to a person, whose answer must fit the `schema`.
    """

    value: Any = None
    error: str = ""
    expires_at: datetime | None = None
    poll_at: datetime | None = None
    remote: Any = None
    question: str = ""
    schema: Any = None

    @property
    def is_final(self) -> bool:
        return self.expires_at is None and not self.question

    @property
    def digest(self) -> bytes:
        return _digest([self.value, self.error])


def call_digest(name: UUID | str, arguments: Mapping[str, Any]) -> bytes:
    """Return what is the same for calls of one tool with the same arguments, whatever their order."""
    return sha256(str(name).encode() + orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)).digest()


def _digest(value: Any) -> bytes:
    return sha256(to_json(value)).digest()


# Time passes


def next_look(call: ParkedCall, after: datetime) -> datetime | None:
    """Return the first moment after this one at which a pending call needs a reminder, or expires."""
    first = call.created_at + FIRST_REMINDER
    moments = [first]
    if (end := call.expires_at) is not None:
        moments = [min(first, end), end - min(LAST_REMINDER, (end - call.created_at) / 4), end]
    return min((moment for moment in moments if moment > after), default=None)


def look(call: PresentCall, now: datetime, lease: timedelta) -> CallStep | None:
    """Decide what a call that is due needs: a reminder, its end, or that this node makes it.

    Who stores the step to `calling` makes the call. If it has not ended when the lease has, that process is
    gone: a call that does no harm is repeated, of any other one nobody knows.
    """
    is_open = call.state in {CallState.PENDING, CallState.DUE}
    if is_open and call.lost:
        return _end(call, CallState.WITHDRAWN, f"It was withdrawn: {call.lost}.", now)
    if call.ended_at is not None or call.due_at is None or call.due_at > now:
        return None
    if call.state in {CallState.PENDING, CallState.WAITING}:
        return _pass_time(call, now, lease)
    if call.state is CallState.DUE or call.is_idempotent:
        return CallStep(replace(call, state=CallState.CALLING, due_at=now + lease))
    return _end(call, CallState.FAILED, UNKNOWN_EFFECT, now)


def _pass_time(call: PresentCall, now: datetime, lease: timedelta) -> CallStep:
    if call.expires_at is not None and call.expires_at <= now:
        return _expire(call, now)
    if call.state is CallState.WAITING:  # its server is asked for the result; if nobody does, again
        lease_until = min(now + lease, call.expires_at or now + lease)
        return CallStep(replace(call, due_at=lease_until if call.remote else call.expires_at))
    needed_at = next_look(call, call.reminded_at or call.created_at)
    if needed_at is None or needed_at > now:  # something has changed, but not what the call needs
        return CallStep(replace(call, due_at=needed_at))
    after = replace(call, reminded_at=now, due_at=next_look(call, now))
    return CallStep(after, EventType.APPROVAL_REMINDED, {"expires_at": format_timestamp(call.expires_at)})


def _expire(call: PresentCall, now: datetime) -> CallStep:
    nobody = f"{excerpt(call.tool, MAX_NAME)} has not sent its result"
    if call.state is CallState.PENDING:
        nobody = f"Nobody has {'answered' if call.kind in ANSWERED else 'decided'}"
    return _end(call, CallState.EXPIRED, f"{nobody} by {_time(call.expires_at or now)}.", now)


# A person decides


def decide(call: PresentCall, decision: Decision, by: str, now: datetime) -> CallStep:
    """Decide what a decision of `by` leads to. The same one again changes nothing; another one is refused."""
    if call.state is not CallState.PENDING:
        is_same = call.decision_digest == decision.digest
        return CallStep(call, refusal="" if is_same else what_happened(call))
    if call.lost or (call.expires_at is not None and call.expires_at <= now):
        step = look(replace(call, due_at=now), now, timedelta()) or CallStep(call)
        return replace(step, refusal=step.after.outcome)
    decided = replace(
        call,
        decided_at=now,
        decided_by=by,
        decision_digest=decision.digest,
        note=decision.note,
        approved_arguments=decision.arguments,
        answer=decision.answer,
    )
    if not decision.approve:
        step = _end(decided, CallState.DENIED, what_happened(replace(decided, state=CallState.DENIED)), now)
    elif call.kind is CallKind.QUESTION:
        step = _end(decided, CallState.DONE, what_happened(decided), now)
    else:
        step = CallStep(replace(decided, state=CallState.DUE, due_at=now))
    grant = _grant(decided, decision, now) if decision.approve else None
    data = {"approved": decision.approve, "note": excerpt(decision.note, 200), "grant": grant and grant.id}
    return replace(step, event=EventType.APPROVAL_DECIDED, data=data, grant=grant)


def _grant(call: PresentCall, decision: Decision, now: datetime) -> ApprovalGrant | None:
    """Return what the decision also allows. The first approval of some tools allows all their calls."""
    terms = decision.grant
    if terms is None and decoded(call.approval) == FIRST_USE:
        terms = GrantTerms(is_exact=False)
    if terms is None or call.kind is not CallKind.APPROVAL or call.tool_id is None:
        return None
    return ApprovalGrant(
        id=derive_id(call.id, "grant"),
        organization_id=call.organization_id,
        agent_id=call.agent_id,
        tool_id=call.tool_id,
        tool_digest=call.tool_digest,
        call_id=call.id,
        digest=call_digest(call.tool_id, effective_arguments(call)) if terms.is_exact else None,
        arguments_schema=None if terms.is_exact else terms.schema,
        until=terms.until,
        max_uses=terms.max_uses,
        created_at=now,
        created_by=call.decided_by,
    )


def effective_arguments(call: ParkedCall) -> dict[str, Any]:
    """Return the arguments with which the call is made: as edited, else as given."""
    arguments: dict[str, Any] = orjson.loads(call.approved_arguments or call.arguments)
    return arguments


def what_happened(call: ParkedCall) -> str:
    """Say who has decided what, and how the call ended."""
    if call.decided_at is None:
        return call.outcome or f"It is {call.state}."
    verb = "denied" if call.state is CallState.DENIED else "approved"
    if call.kind in ANSWERED:
        verb = "declined" if call.state is CallState.DENIED else "answered"
    decided = f"It was {verb} by {call.decided_by} at {_time(call.decided_at)}."
    return decided if call.outcome in {"", decided} else f"{decided} {call.outcome}"


def why_pending(pending: PendingCalls) -> str:
    """Say since when an agent waits for a person; "" if it does not."""
    if pending.oldest_at is None:
        return ""
    if pending.count == 1:
        return f"It asked a person at {_time(pending.oldest_at)}, and waits for the answer."
    first = f"first at {_time(pending.oldest_at)}"
    return f"It asked a person {pending.count} times, {first}, and waits for the answers."


# A call is answered


def end_call(call: PresentCall, answer: CallAnswer, lease_until: datetime, now: datetime) -> CallStep | None:
    """Decide what the answer to a call leads to; None if another node makes it or its result came."""
    if call.ended_at is not None or call.due_at != lease_until:
        return None
    return _answered(call, answer, now)


def postpone(call: PresentCall, lease_until: datetime, now: datetime) -> CallStep | None:
    """Decide what follows when a claimed call could not be made: another attempt, soon."""
    if call.ended_at is not None or call.due_at != lease_until:
        return None
    state = CallState.DUE if call.state is CallState.CALLING else call.state
    return CallStep(replace(call, state=state, due_at=now + RETRY))


def receive_result(call: PresentCall, answer: CallAnswer, now: datetime) -> CallStep:
    """Decide what a result leads to that a tool has sent. It is taken once, as long as the call waits."""
    if call.result_digest is not None or call.state not in {CallState.WAITING, CallState.CALLING}:
        is_same = call.result_digest == answer.digest
        return CallStep(call, refusal="" if is_same else f"The call takes no result: {what_happened(call)}")
    if call.state is CallState.WAITING and call.expires_at is not None and call.expires_at <= now:
        step = _expire(call, now)
        return replace(step, refusal=step.after.outcome)
    return _answered(replace(call, result_digest=answer.digest), answer, now)


def _answered(call: PresentCall, answer: CallAnswer, now: datetime) -> CallStep:
    if answer.question:
        asked = replace(
            call, kind=CallKind.INPUT, state=CallState.PENDING, question=answer.question, remote=answer.remote
        )
        asked = replace(asked, answer_schema=answer.schema, expires_at=answer.expires_at)
        data = {"expires_at": format_timestamp(asked.expires_at)}
        return CallStep(replace(asked, due_at=next_look(asked, now)), EventType.APPROVAL_REQUESTED, data)
    if answer.expires_at is not None:
        waiting = replace(call, state=CallState.WAITING, expires_at=answer.expires_at, remote=answer.remote)
        return CallStep(replace(waiting, due_at=answer.poll_at or answer.expires_at))
    if answer.error:
        return _end(call, CallState.FAILED, answer.error, now)
    return _end(call, CallState.DONE, "The tool has answered.", now, answer)


# How it ends, and what the agent is told


def _end(
    call: PresentCall, state: CallState, outcome: str, now: datetime, answer: CallAnswer | None = None
) -> CallStep:
    after = replace(call, state=state, outcome=outcome, ended_at=now, due_at=None)
    event = None
    if call.state in {CallState.PENDING, CallState.DUE} and call.kind in ASKS_PERSON:
        ends = {
            CallState.EXPIRED: EventType.APPROVAL_EXPIRED,
            CallState.WITHDRAWN: EventType.APPROVAL_WITHDRAWN,
        }
        event = ends.get(state)
    notice = None if call.lost is Lost.AGENT_DELETED else _notice(after, answer)
    return CallStep(after, event, {"outcome": excerpt(outcome, 200)} if event else {}, notice)


def _notice(call: ParkedCall, answer: CallAnswer | None) -> Notice:
    """Return what the agent is told: what it waited for, what ended that, and the result."""
    name = excerpt(call.tool, MAX_NAME)
    what = f"Your call of {name} with {cut(call.arguments, MAX_ARGUMENTS)}"
    if call.kind is CallKind.QUESTION:
        what = f'Your question "{cut(call.question, MAX_ARGUMENTS)}"'
    lines = [f"{what}: {what_happened(call)}"]
    if call.approved_arguments:
        lines.append(f"It was made with changed arguments: {cut(call.approved_arguments, MAX_ARGUMENTS)}")
    if call.note:
        lines.append(f"Note: {cut(call.note, MAX_SHOWN)}")
    result, label, payload = call.answer, "Answer", None
    if answer is not None:
        result, label = to_json(answer.value).decode(), "Result"
    if result is not None:
        lines.append(f"{label}: {cut(result, MAX_SHOWN)}")
        if len(result) > MAX_SHOWN:
            payload = result
            lines.append(payload_hint(len(result.encode()), derive_id(call.id, "outcome")))
    priority = Priority.LOW if call.state is CallState.EXPIRED else Priority.HIGH
    return Notice(f"{name}: {call.state}", "\n\n".join(lines), priority, payload)


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
