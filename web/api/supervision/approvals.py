"""Approvals: calls and questions of agents that wait, what people decide about them, and what they grant."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

import orjson
from aiohttp import web
from marshmallow import RAISE

from storage.approval_grants import ApprovalGrant
from storage.model import Role
from storage.parked_calls import CallKind, CallState, ParkedCall
from storage.postgres.json_values import to_json
from supervisors.policy.parked_calls import ANSWERED, Decision, GrantTerms, decide
from web.access.approval_rules import ApprovalMode, ApprovalWhen, check_schema
from web.access.auth import Caller
from web.access.path_access import load_owned, require_adapter, require_agent
from web.api.events.schemas import ActorResponse, actor_of
from web.app_keys import CLOCK, SCHEMA_CHECKER, STORAGE
from web.errors import Conflict, Invalid, require_found
from web.fields import (
    MAX_INT32,
    MAX_SIDE_TEXT,
    REQUIRED,
    Boolean,
    Choice,
    Integer,
    JsonObject,
    JsonValue,
    Line,
    ObjectOf,
    Text,
    UtcDatetime,
    Uuid,
    WordOrObject,
)
from web.json import Serializer
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes

EXACT = "exact"
NO_ANSWER = object()  # null is one
MAX_AGE_SECONDS = 100 * 366 * 86_400


class GrantBody(Body):
    """Later calls of this tool by this agent that need no decision."""

    class Meta:
        unknown = RAISE  # a bound whose name is misspelt must not be ignored

    arguments = WordOrObject(EXACT, required=True)
    """`"exact"`: those with exactly the approved arguments. Or a JSON Schema (2020-12) that their arguments
    must fit; {} covers every call."""
    until = UtcDatetime(allow_none=True, load_default=None)
    """When it ends; null: at no time. Without an offset it is UTC."""
    max_uses = Integer(min_value=1, max_value=MAX_INT32, allow_none=True, load_default=None)
    """After how many calls it ends; null: after none."""


class DecisionBody(Body):
    """What a person decides."""

    approve = Boolean(allow_none=True, load_default=None)
    """Whether the call may be made. null or left out is for questions, whose `answer` counts; false declines
    to answer."""
    note = Text(load_default="", max_length=MAX_SIDE_TEXT)
    arguments = JsonObject()
    """The arguments to call the tool with, in place of those that the agent gave."""
    answer = JsonValue(allow_none=True)
    """The answer to a question, which must fit its `answer_schema`."""
    grant = ObjectOf(GrantBody, allow_none=True, load_default=None)
    """Which further calls need no decision; null: none do."""


class ApprovalQuery(PageQuery):
    state = Choice(CallState, load_default=None)
    """Only those in this state. `pending`: those that wait for a person."""
    kind = Choice(CallKind, load_default=None)
    """Only those that wait for this."""
    agent = Uuid(load_default=None)
    """Only those of this agent."""
    tool = Line(load_default="", max_length=255)
    """Only calls of tools with this name. "": of all tools."""
    older_than = Integer(min_value=0, max_value=MAX_AGE_SECONDS, load_default=None)
    """Only those that were made so many seconds ago, or earlier."""


class GrantQuery(PageQuery):
    agent = Uuid(load_default=None)
    """Only grants for calls of this agent."""
    tool_id = Uuid(load_default=None)
    """Only grants for calls of this tool."""


class ApprovalResponse(TypedDict):
    """A call or a question of an agent whose answer comes later."""

    id: UUID
    """The id of the call: its tool gets it as `tool_call_id`."""
    kind: CallKind
    """What it waits for."""
    state: CallState
    """How far it is."""
    agent: UUID
    """The agent that made the call."""
    agent_name: str
    """The name of the agent."""
    run: UUID | None
    """The run that made the call, whose trace says why; null if a client made it."""
    adapter: UUID | None
    """The adapter of the tool; null for a question of the agent, or if the tool was deleted."""
    tool: str
    """The name of the tool; `ask_person` for a question of the agent."""
    arguments: Any
    """The arguments of the call, exactly as they were given."""
    digest: str
    """A SHA-256 digest of tool and arguments, in hexadecimal digits."""
    question: str
    """What a person is asked; "" for an approval."""
    answer_schema: Any
    """The JSON Schema that an answer must fit; null: any answer, or no question."""
    contact: UUID | None
    """The contact whom the agent asks; null: whoever may decide."""
    created_at: datetime
    """When the call was made."""
    expires_at: datetime | None
    """When the wait ends without a decision or a result; null: never."""
    reminded_at: datetime | None
    """When `approval.reminded` last told of it; null: not yet."""
    approvers: Role
    """The lowest role that may decide, as the agent's template says. API keys and links act as admins."""
    approval: ApprovalMode | ApprovalWhen | None
    """Which calls of the tool wait, as it says now: with `first_use`, an approval without a grant of its own
    lets all later calls of the agent pass. null for a question of the agent, or if the tool was deleted."""
    decided_at: datetime | None
    """When a person decided; null: not yet, or there was nothing to decide."""
    decided_by: ActorResponse | None
    """Who decided; null if nobody has."""
    note: str
    """A text of the person who decided, which the agent reads."""
    approved_arguments: Any
    """The arguments as that person has edited them; null: they are as the agent gave them."""
    answer: Any
    """The answer of that person; null if there is none."""
    ended_at: datetime | None
    """When the agent was told the outcome; null: it still waits."""
    outcome: str
    """A sentence that says how it ended; "" while it has not."""


class GrantResponse(TypedDict):
    """Calls of one tool by one agent that need no decision. `used_count` says how many have passed."""

    id: UUID
    """Chosen by the service."""
    agent: UUID
    """The agent whose calls it covers."""
    agent_name: str
    """The name of that agent."""
    tool_id: UUID
    """The tool whose calls it covers."""
    tool: str
    """The name of that tool."""
    call: UUID
    """The approval with which it was given."""
    arguments: Any
    """`"exact"`: those that were approved then. Or the JSON Schema that arguments must fit; {}: any."""
    until: datetime | None
    """When it ends; null: at no time."""
    max_uses: int | None
    """After how many calls it ends; null: after none."""
    used_count: int
    """How many calls it has let pass."""
    last_used_at: datetime | None
    """When it last did; null: not yet."""
    is_for_present_tool: bool
    """false: the tool has changed since what a person saw of it, so the grant covers nothing."""
    created_at: datetime
    """When it was given."""
    created_by: ActorResponse
    """Who gave it."""
    revoked_at: datetime | None
    """When it was revoked; null: it was not."""
    revoked_by: ActorResponse | None
    """Who revoked it; null if nobody has."""


def _parsed(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


serialize_approval = Serializer(
    ApprovalResponse,
    ParkedCall,
    arguments=lambda call: _parsed(call.arguments),
    digest=lambda call: call.digest.hex(),
    decided_by=lambda call: actor_of(call.decided_by) if call.decided_at else None,
    approved_arguments=lambda call: _parsed(call.approved_arguments),
    answer=lambda call: _parsed(call.answer),
)

serialize_grant = Serializer(
    GrantResponse,
    ApprovalGrant,
    arguments=lambda grant: EXACT if grant.digest else grant.arguments_schema or {},
    created_by=lambda grant: actor_of(grant.created_by),
    revoked_by=lambda grant: actor_of(grant.revoked_by) if grant.revoked_at else None,
)

routes = Routes()


@routes.get("/api/defaults/approvals/", answer=list[ApprovalResponse], query=ApprovalQuery)
async def list_approvals(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the calls and questions of agents that wait or have waited, newest first."""
    query, calls = read_query(request), request.app[STORAGE].parked_calls
    await require_agent(request, caller, query["agent"])
    age = query["older_than"]
    until = None if age is None else request.app[CLOCK].now() - timedelta(seconds=age)
    filters = {name: query[name] for name in ("state", "kind", "agent")}
    fetch = partial(calls.list_page, caller.organizations, **filters, tool=query["tool"] or None, until=until)
    return await answer_owned(request, query, caller.organizations, calls.get, fetch, serialize_approval)


@routes.get("/api/defaults/approvals/{id}/", takes_link=True)
async def get_approval(request: web.Request, caller: Caller) -> ApprovalResponse:
    """Read one call or question, with exactly the arguments that were given."""
    return serialize_approval(await load_owned(request, caller, request.app[STORAGE].parked_calls.get))


@routes.post("/api/defaults/approvals/{id}/decide/", body=DecisionBody, refusals={409}, takes_link=True)
async def decide_approval(request: web.Request, caller: Caller) -> ApprovalResponse:
    """Approve or deny a call, or answer a question.

    On approval the service makes the call, with exactly the arguments that are stored or given here, and
    wakes the agent with the result. The same decision again changes nothing. After another one, and for what
    has expired or was withdrawn, the answer is 409 and says what happened. It needs the role in `approvers`.
    """
    call = await load_owned(request, caller, request.app[STORAGE].parked_calls.get)
    body = await read_body(request)
    return serialize_approval(await decide_call(request.app, caller, call, **body))


async def decide_call(
    app: web.Application,
    caller: Caller,
    call: ParkedCall,
    *,
    approve: bool | None = None,
    note: str = "",
    arguments: Mapping[str, Any] | None = None,
    answer: Any = NO_ANSWER,
    grant: Mapping[str, Any] | None = None,
) -> ParkedCall:
    """Store the decision of a caller who may make it, as the fields of `DecisionBody` say; return the call.

    Raise PermissionDenied for another caller, Invalid for fields that do not fit the call, Conflict if it was
    decided otherwise or has ended.
    """
    caller.require(call.organization_id)
    caller.require_role(call.organization_id, call.approvers)
    left_out = {"arguments": arguments is None, "answer": answer is NO_ANSWER, "grant": grant is None}
    _require_fields(call, approve, [name for name, is_left_out in left_out.items() if not is_left_out])
    if call.state is CallState.PENDING:
        await _check_schemas(app, call, arguments, answer, grant)
    decision = Decision(
        approve=approve is not False,
        note=note,
        arguments=None if arguments is None else to_json(arguments).decode(),
        answer=None if answer is NO_ANSWER else to_json(answer).decode(),
        grant=None if grant is None else _terms(grant),
    )
    by, now = caller.identity, app[CLOCK].now()
    rule = partial(decide, decision=decision, by=by, now=now)
    step = require_found(await app[STORAGE].parked_calls.change(call.id, rule, now, actor=by))
    if step.refusal:
        raise Conflict(step.refusal)
    return step.after


def _require_fields(call: ParkedCall, approve: bool | None, given: Sequence[str]) -> None:
    """Raise Invalid unless these fields are all that the decision needs, and none besides."""
    is_question = call.kind in ANSWERED
    if approve is None and not is_question:
        raise Invalid({"approve": [REQUIRED]})
    allowed = () if approve is False else ("answer",) if is_question else ("arguments", "grant")
    if odd := [name for name in given if name not in allowed]:
        raise Invalid({name: ["This decision has no such field."] for name in odd})
    if "answer" in allowed and not given:
        raise Invalid({"answer": [REQUIRED]})


async def _check_schemas(
    app: web.Application,
    call: ParkedCall,
    arguments: Mapping[str, Any] | None,
    answer: Any,
    grant: Mapping[str, Any] | None,
) -> None:
    """Raise Invalid if the arguments or the answer do not fit their schemas, or the grant has none."""
    checker, owner = app[SCHEMA_CHECKER], call.organization_id
    if answer is not NO_ANSWER and call.answer_schema is not None:
        place = "the schema of the answer"
        if errors := await checker.find_errors(owner, place, call.answer_schema, answer):
            raise Invalid({"answer": errors})
    tool = await app[STORAGE].tools.get(call.tool_id) if arguments is not None and call.tool_id else None
    if tool is not None and tool.is_enforced:
        place = f"the parameters of the tool {tool.name}"
        if errors := await checker.find_errors(owner, place, tool.parameters, arguments):
            raise Invalid({"arguments": errors})
    if grant is not None and grant["arguments"] != EXACT:
        await check_schema(app, owner, "grant", grant["arguments"])


def _terms(grant: Mapping[str, Any]) -> GrantTerms:
    is_exact = grant["arguments"] == EXACT
    schema = None if is_exact else grant["arguments"] or None  # {} covers all
    return GrantTerms(is_exact, schema, grant.get("until"), grant.get("max_uses"))


@routes.get("/api/defaults/approval-grants/", answer=list[GrantResponse], query=GrantQuery)
async def list_grants(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the grants of your organizations, newest first, those that have ended among them."""
    query, grants = read_query(request), request.app[STORAGE].approval_grants
    await require_agent(request, caller, query["agent"])
    tool = await request.app[STORAGE].tools.get(query["tool_id"]) if query["tool_id"] else None
    await require_adapter(request, caller, tool.adapter_id if tool else None)
    fetch = partial(grants.list_page, caller.organizations, agent=query["agent"], tool=query["tool_id"])
    return await answer_owned(request, query, caller.organizations, grants.get, fetch, serialize_grant)


@routes.get("/api/defaults/approval-grants/{id}/")
async def get_grant(request: web.Request, caller: Caller) -> GrantResponse:
    """Read one grant."""
    return serialize_grant(await load_owned(request, caller, request.app[STORAGE].approval_grants.get))


@routes.post("/api/defaults/approval-grants/{id}/revoke/")
async def revoke_grant(request: web.Request, caller: Caller) -> GrantResponse:
    """Let the calls that a grant covers ask again, from the next one on. Anybody in the organization may."""
    grants = request.app[STORAGE].approval_grants
    grant = await load_owned(request, caller, grants.get)
    revoked = await grants.revoke(grant.id, request.app[CLOCK].now(), actor=caller.identity)
    return serialize_grant(require_found(revoked))
