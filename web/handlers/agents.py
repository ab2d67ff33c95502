"""Agents: create, list, read, change, delete.

These handlers store an agent's settings themselves. Its state (`paused`, `status`, `sleep_until` and the
like) belongs to its supervisor: once the settings are stored, they ask the supervisor to write those fields.
"""

from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.agents.tags import MAX_TAGS_BYTES
from storage.errors import ConstraintError, NotUnique, ReferenceMissing, TooManyTags
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Notification, Priority, Source
from supervisors.engine.messages import OwnedFieldsRequest, Signal
from web.access.agent_queries import read_agent_filters
from web.access.agent_references import References, refusal, resolve
from web.access.auth import Caller, RunAccess
from web.access.body_references import single_organization
from web.access.model_checks import require_usable_change, require_usable_model
from web.access.path_access import agent_of_path, answer_of_agent, load_agent
from web.app_keys import CLOCK, REGISTRY, SETTINGS, STORAGE
from web.errors import Conflict, Invalid, NotFound, require_found
from web.fields import REQUIRED
from web.idempotency import read_body_once, receipt_of
from web.json import json_response, to_json
from web.page_reader import Listing
from web.paging import answer_list, find_owned
from web.request.local_times import localize
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.agents import (
    DATETIME_FIELDS,
    AgentBody,
    AgentQuery,
    AgentResponse,
    TagsBody,
    serialize_agent,
)

routes = Routes()

BODY = AgentBody()
QUERY = AgentQuery()
TAGS = TagsBody()

SUPERVISOR_FIELD_DEFAULTS: dict[str, Any] = {
    "paused": False,
    "status": AgentStatus.SLEEPING,
    "sleep_until": None,
}
# Only runs change these: a value that a client gives is checked, but has no effect.
RUN_FIELD_DEFAULTS: dict[str, Any] = {
    "run_started_at": None,
    "last_wake_reason": "",
    "last_wake_interrupted_sleep_until": None,
}
TOO_MANY_TAGS = (
    "An agent may have at most {} tags (limits.tags_per_agent), which take at most {} bytes as JSON together."
)
SETTINGS_READ_BY_SUPERVISOR = frozenset(
    {"template_id", "debounce_window_seconds", "max_sleep_hours", "max_cost_usd_per_day", "unpriced"}
)


@routes.create("/api/cloud/agents/", answer=AgentResponse, body=BODY, by_header=True)
async def create_agent(request: web.Request, caller: Caller) -> web.Response:
    """Create an agent, asleep unless the body says otherwise.

    If it has a parent, the parent gets a low notification. If its template has an
    `agent_created_webhook_url`, a webhook is sent to it. If the organization already has `limits.agents`
    agents, the answer is 400. So it is if no provider has the model, or a spending cap refuses it because its
    price is not known.
    """
    app = request.app
    storage = app[STORAGE]
    body = await read_body_once(request, caller, BODY)
    _check_tags(request, body)
    localize(body, DATETIME_FIELDS, ZoneInfo(body["timezone"]))
    supervisor_fields = _pop_supervisor_fields(body)
    references = await resolve(storage, partial(single_organization, request, caller), body)
    if "model" not in body:
        body["model"] = _inherited_model(references)
    await require_usable_model(request, references.organization_id, body, references.template)
    agent = _build_agent(body, references, app[CLOCK].now())
    answer = json_response(serialize_agent(agent), status=201)
    try:
        notice, receipt = _parent_notification(agent), receipt_of(request, answer)
        await storage.agents.insert(agent, notice, receipt, actor=caller.identity)
    except (NotUnique, ReferenceMissing) as error:
        raise refusal(error, body) from error
    changes = {
        name: value for name, value in supervisor_fields.items() if value != SUPERVISOR_FIELD_DEFAULTS[name]
    }
    if not changes:
        return answer
    return await _answer_after_supervisor(
        request, agent, OwnedFieldsRequest(**changes, caller=caller.identity)
    )


def _pop_supervisor_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Remove the fields that the supervisor owns from the body; return those that a client may set."""
    for name in RUN_FIELD_DEFAULTS:
        body.pop(name, None)
    return {name: body.pop(name) for name in SUPERVISOR_FIELD_DEFAULTS if name in body}


def _inherited_model(references: References) -> str:
    template = references.template
    if template is None or not template.default_model:
        raise Invalid({"model": [REQUIRED]})
    return template.default_model


def _build_agent(body: dict[str, Any], references: References, now: datetime) -> Agent:
    template, parent = references.template, references.parent
    lists = {"tags": tuple(body["tags"]), "adapters": tuple(dict.fromkeys(body["adapters"]))}
    return Agent(
        id=new_id(),
        organization_id=references.organization_id,
        template_name=template.name if template else None,
        parent_name=parent.name if parent else "",
        created_at=now,
        **{**body, **lists},
        **SUPERVISOR_FIELD_DEFAULTS,
        **RUN_FIELD_DEFAULTS,
    )


def _parent_notification(agent: Agent) -> Notification | None:
    """Return the notification for the agent's parent, if it has one. Its low priority wakes nobody."""
    if agent.parent_id is None:
        return None
    return Notification(
        id=new_id(),
        organization_id=agent.organization_id,
        agent_id=agent.parent_id,
        source=Source.SYSTEM,
        source_id=str(agent.id),
        title="Agent created",
        body=f"{agent.name} was created with this agent as its parent.",
        priority=Priority.LOW,
        created_at=agent.created_at,
        scheduled_for=None,
        cleared=False,
        cleared_at=None,
        activated_at=None,
    )


async def _answer_after_supervisor(
    request: web.Request, agent: Agent, owned: OwnedFieldsRequest
) -> web.Response:
    """Have the supervisor write its fields, then answer with the whole agent.

    Until it has, the answer stored in the receipt is still true, and a repeated request gets that one.
    """
    storage = request.app[STORAGE]
    await request.app[REGISTRY].ask(agent.id, owned, admitted=True)
    agent = await storage.agents.get(agent.id) or agent
    answer = json_response(serialize_agent(agent), status=201)
    receipt = receipt_of(request, answer)
    if receipt is not None:
        await storage.receipts.update_answer(receipt)
    return answer


@routes.get("/api/cloud/agents/", answer=list[AgentResponse], query=QUERY)
async def list_agents(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the agents of your organizations, newest first, without archived ones unless you ask for them."""
    query = read_query(request, QUERY)
    filters = await read_agent_filters(request, caller, query)
    agents = request.app[STORAGE].agents
    listing = Listing(
        partial(agents.list_rows, filters), serialize_agent.row, find_owned(caller.organizations, agents.get)
    )
    return await answer_list(request, query, listing)


@routes.get("/api/cloud/agents/{id}/", answer=AgentResponse, run_access=RunAccess.RUNNING)
async def get_agent(request: web.Request, caller: Caller) -> web.Response:
    """Read one agent. The token of a run may read the run's own agent."""
    return await answer_of_agent(request, caller, request.app[STORAGE].agents.get, serialize_agent)


@routes.patch("/api/cloud/agents/{id}/", answer=AgentResponse, body=BODY, refusals={409})
async def change_agent(request: web.Request, caller: Caller) -> web.Response:
    """Change the fields that the body contains; `adapters` and `tags` are replaced as a whole.

    A new debounce window applies to a current wait at once, and a higher spending cap wakes an agent that is
    due. A run or a sleep of an archived agent is refused with 409. If the supervisor has too many requests
    waiting, the answer is 503 and nothing is changed.
    """
    app = request.app
    storage = app[STORAGE]
    agent = await load_agent(request, caller)
    body = await read_body(request, BODY, partial=True)
    _check_tags(request, body)
    localize(body, DATETIME_FIELDS, ZoneInfo(body.get("timezone", agent.timezone)))
    supervisor_fields = _pop_supervisor_fields(body)
    await resolve(storage, lambda _: agent.organization_id, body)
    await require_usable_change(request, agent, body)
    _refuse_while_archived(agent, supervisor_fields)
    if "adapters" in body:
        body["adapters"] = list(dict.fromkeys(body["adapters"]))
    if supervisor_fields:
        app[REGISTRY].require_room(agent.id)  # refuse before the settings are stored, not after
    try:
        changed = await storage.agents.update(agent.id, body, app[CLOCK].now(), actor=caller.identity)
    except ConstraintError as error:
        raise refusal(error, body) from error
    if supervisor_fields:
        owned = OwnedFieldsRequest(**supervisor_fields, caller=caller.identity)
        await app[REGISTRY].ask(agent.id, owned, admitted=True)
        changed = await storage.agents.get(agent.id)
    if body.keys() & SETTINGS_READ_BY_SUPERVISOR:
        app[REGISTRY].tell(agent.id, Signal.RELOAD)
    return json_response(serialize_agent(require_found(changed)))


def _refuse_while_archived(agent: Agent, supervisor_fields: dict[str, Any]) -> None:
    """Raise Conflict for a run or a sleep of an archived agent.

    Such an agent has no sleep to end, so a null `sleep_until` is dropped from the fields.
    """
    status = supervisor_fields.get("status", agent.status)
    if agent.status is AgentStatus.ARCHIVED and status is AgentStatus.RUNNING:
        raise Conflict("The agent is archived; restore it first.")
    if status is AgentStatus.ARCHIVED and supervisor_fields.pop("sleep_until", None) is not None:
        raise Conflict("The agent is archived; restore it first.")


@routes.post("/api/cloud/agents/{id}/tag/", answer=AgentResponse, body=TAGS)
async def tag_agent(request: web.Request, caller: Caller) -> web.Response:
    """Add tags to an agent; those that it already has stay where they are."""
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request, TAGS)
    agents, max_tags = request.app[STORAGE].agents, request.app[SETTINGS].limits.tags_per_agent
    now = request.app[CLOCK].now()
    try:
        tagged = await agents.tag(agent_id, body["tags"], max_tags, now, actor=caller.identity)
    except TooManyTags as error:
        raise Invalid({"tags": [TOO_MANY_TAGS.format(max_tags, MAX_TAGS_BYTES)]}) from error
    return json_response(serialize_agent(require_found(tagged)))


def _check_tags(request: web.Request, body: dict[str, Any]) -> None:
    """Raise Invalid if the body has more tags than an agent may have, or longer ones."""
    tags, max_tags = body.get("tags", ()), request.app[SETTINGS].limits.tags_per_agent
    if len(tags) > max_tags or len(to_json(tags)) > MAX_TAGS_BYTES:
        raise Invalid({"tags": [TOO_MANY_TAGS.format(max_tags, MAX_TAGS_BYTES)]})


@routes.post("/api/cloud/agents/{id}/untag/", answer=AgentResponse, body=TAGS)
async def untag_agent(request: web.Request, caller: Caller) -> web.Response:
    """Remove tags from an agent; those that it does not have are ignored."""
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request, TAGS)
    now = request.app[CLOCK].now()
    agents = request.app[STORAGE].agents
    untagged = await agents.untag(agent_id, body["tags"], now, actor=caller.identity)
    return json_response(serialize_agent(require_found(untagged)))


@routes.delete("/api/cloud/agents/{id}/")
async def delete_agent(request: web.Request, caller: Caller) -> web.Response:
    """Delete an agent and stop its run. Its data is deleted in small batches afterwards.

    It answers 404 from now on, and its children have no parent. Its usage and traces stay readable for the
    time that the operator has set.
    """
    agent_id = await agent_of_path(request, caller)
    agents, now = request.app[STORAGE].agents, request.app[CLOCK].now()
    if not await agents.delete(agent_id, now, actor=caller.identity):
        raise NotFound
    request.app[REGISTRY].tell(agent_id, Signal.RELOAD)
    return web.Response(status=204)
