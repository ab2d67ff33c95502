"""Parking: a call that waits for a person or for a late result becomes a row, and its caller goes on."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from storage.parked_calls import CallKind, CallState, ParkedCall
from storage.postgres.json_values import decoded, to_json
from storage.toolbox import CallableTool
from supervisors.errors import ChecksPending
from supervisors.json_schema.checker import SchemaChecker, is_undecided
from supervisors.policy.parked_calls import CallAnswer, call_digest, next_look
from supervisors.text import format_timestamp
from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import ToolInvocation

NEVER = "never"
PARKED_CALL = "hostsvc.parked_call"  # of the span of a call: the row that it has become
GRANT = "hostsvc.grant"  # of the span of a call: the grant that let it through
WAITS_FOR = {
    CallKind.APPROVAL: ("approval", "a person's approval"),
    CallKind.QUESTION: ("answer", "a person's answer"),
    CallKind.INPUT: ("answer", "a person's answer to a question of the tool"),
    CallKind.RESULT: ("result", "the result, which the tool sends later"),
}
CANNOT_WAIT = "The tool waits for a person, or answers later. This needs its answer at once."
DEFAULT_HOURS = 168  # of an agent without a template


@dataclass(frozen=True, slots=True)
class ResultAddresses:
    """Where tools send the results of calls, each with a token that is good for this call alone."""

    base_url: str = ""
    secret: str = field(default="", repr=False)

    def of(self, call_id: UUID) -> dict[str, str]:
        """Return the address and the token, which are the same each time."""
        url = f"{self.base_url}/api/toolbox/calls/{call_id}/result/"
        return {"url": url, "token": self._token(call_id)}

    def is_valid(self, call_id: UUID, token: str) -> bool:
        """Return whether this is the token of the call. Without a secret none is."""
        expected, given = self._token(call_id).encode(), token.encode(errors="replace")
        return self.secret != "" and hmac.compare_digest(expected, given)

    def _token(self, call_id: UUID) -> str:
        return hmac.new(self.secret.encode(), b"result of the call " + call_id.bytes, sha256).hexdigest()


async def needs_person(
    call: ToolInvocation, tool: CallableTool, arguments: Mapping[str, Any], checker: SchemaChecker
) -> bool:
    """Return whether a person must allow the call. One that a grant covers counts as a use of it.

    If nobody can say whether the arguments fit a schema, a person must.
    """
    if tool.approval == NEVER:
        return False
    owner = call.agent.organization_id
    if isinstance(tool.approval, dict):
        place, schema = f"the approval of the tool {tool.name}", tool.approval["when"]
        if await _fit(checker, owner, place, schema, arguments) is False and await _is_schema(
            checker, owner, place, schema
        ):
            return False
    grants, digest = call.stores.approval_grants, call_digest(tool.id, arguments)
    for grant in await grants.list_usable(call.agent.id, tool.id, digest, call.now):
        schema = decoded(grant.arguments_schema)
        covers = schema is None or await _fit(checker, owner, f"the grant {grant.id}", schema, arguments)
        if covers and await grants.use(grant.id, call.now):
            call.metadata[GRANT] = str(grant.id)
            return False
    return True


async def _fit(
    checker: SchemaChecker, owner: UUID, place: str, schema: Any, arguments: Mapping[str, Any]
) -> bool | None:
    """Return whether the arguments fit the schema; None if that takes too long to say."""
    try:
        errors = await checker.find_errors(owner, place, schema, dict(arguments))
    except ChecksPending:
        return None
    return None if is_undecided(errors, place) else not errors


async def _is_schema(checker: SchemaChecker, owner: UUID, place: str, schema: Any) -> bool:
    """Return whether this is a schema. Another program may have stored one that nothing fits."""
    try:
        return not await checker.find_schema_errors(owner, place, schema)
    except ChecksPending:
        return False


async def end_of_wait(call: ToolInvocation, now: datetime) -> datetime | None:
    """Return when a wait for a person that begins now expires, as the template says; None: never."""
    template = await call.stores.templates.get_of(call.agent)
    hours = template.approval_hours if template else DEFAULT_HOURS
    return None if hours is None else now + timedelta(hours=hours)


async def park(
    call: ToolInvocation,
    call_id: UUID,
    kind: CallKind,
    tool: CallableTool | str,
    arguments: Mapping[str, Any],
    **fields: Any,
) -> dict[str, Any]:
    """Store what the call waits for, and return what its caller reads in place of a result.

    `tool` is only a name if it is no tool of an adapter. A wait for a person expires as the template says.
    Raise ToolError if the call may not wait.
    """
    if not call.may_wait:
        raise ToolError("cannot_wait", CANNOT_WAIT)
    tool_id, name = (None, tool) if isinstance(tool, str) else (tool.id, tool.name)
    new = ParkedCall(
        id=call_id,
        organization_id=call.agent.organization_id,
        agent_id=call.agent.id,
        run_id=call.run_id,
        kind=kind,
        state=CallState.PENDING,
        tool_id=tool_id,
        tool=name,
        arguments=_text(arguments),
        digest=call_digest(tool_id or name, arguments),
        created_at=call.now,
        expires_at=await end_of_wait(call, call.now),
        due_at=None,
    )
    new = replace(new, due_at=next_look(new, call.now))
    parked = await call.stores.parked_calls.insert(replace(new, **fields), actor=call.actor)
    call.metadata[PARKED_CALL] = str(parked.id)
    waits_for, what = WAITS_FOR[parked.kind]
    return {
        "waiting_for": waits_for,
        "call": str(parked.id),
        "expires_at": format_timestamp(parked.expires_at),
        "note": f"Waiting for {what}. You will be woken; go on with other things, or sleep.",
    }


def _text(arguments: Mapping[str, Any]) -> str:
    try:
        return to_json(dict(arguments)).decode()
    except TypeError as error:  # from orjson: an integer over 64 bits, a broken text, or too many levels
        raise ToolError("invalid", f"The arguments cannot be stored: {error}.") from error


async def park_answer(
    call: ToolInvocation, call_id: UUID, tool: CallableTool, answer: CallAnswer
) -> dict[str, Any]:
    """Park a call whose tool has answered that the rest comes later, or that it asks a person."""
    fields: dict[str, Any] = {"remote": answer.remote}
    if answer.question:
        fields |= {"question": answer.question, "answer_schema": answer.schema}
        return await park(call, call_id, CallKind.INPUT, tool, call.arguments.given, **fields)
    due_at = answer.poll_at or answer.expires_at
    fields |= {"state": CallState.WAITING, "expires_at": answer.expires_at, "due_at": due_at}
    return await park(call, call_id, CallKind.RESULT, tool, call.arguments.given, **fields)
