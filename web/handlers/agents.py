"""Agents: make, list, read, change, delete.

What an agent is goes to storage here. What it does (`status`, `sleep_until` and the like) belongs to its
supervisor: writing one of those fields is a question to it, asked after the rest is stored.
"""

from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.agents.agents import AgentFilters
from storage.errors import ConstraintError, NotUnique, ReferenceMissing
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Notification, Priority, Source
from supervisors.engine.messages import OwnedFields, Signal
from web.access.agent_references import References, refusal, resolve
from web.access.auth import Caller, RunAccess, organization_for_create
from web.access.path_access import (
    agent_of_path,
    path_id,
    require_agent,
    require_organization,
    require_template,
)
from web.app_keys import CLOCK, REGISTRY, STORAGE
from web.errors import Conflict, Invalid, NotFound
from web.fields import REQUIRED
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.local_times import localize
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.agents import (
    DATETIME_FIELDS,
    AgentBody,
    AgentQuery,
    AgentResponse,
    TagsBody,
    serialize_agent,
)

BODY = AgentBody()
QUERY = AgentQuery()
TAGS = TagsBody()

OWNED_AT_BIRTH: dict[str, Any] = {
    "status": AgentStatus.SLEEPING,
    "sleep_until": None,
    "run_started_at": None,
    "last_wake_reason": "",
    "last_wake_interrupted_sleep_until": None,
}
CONCERN_THE_SUPERVISOR = frozenset(
    {"template_id", "debounce_window_seconds", "max_sleep_hours", "max_cost_usd_per_day"}
)


async def create_agent(request: web.Request, caller: Caller) -> web.Response:
    """An agent, asleep unless the body says otherwise; its parent finds a note in its queue."""
    app = request.app
    storage = app[STORAGE]
    organization_id = organization_for_create(request, caller)
    body = await read_body_once(request, caller, BODY)
    localize(body, DATETIME_FIELDS, ZoneInfo(body["timezone"]))
    owned = _take_owned(body)
    references = await resolve(storage, organization_id, body)
    if "model" not in body:
        body["model"] = _inherited_model(references)
    agent = _newborn(organization_id, body, references, app[CLOCK].now())
    answer = json_response(serialize_agent(agent), status=201)
    try:
        await storage.agents.insert(agent, _notice_of(agent), receipt_of(request, answer))
    except (NotUnique, ReferenceMissing) as error:
        raise refusal(error, body) from error
    asked = {name: value for name, value in owned.items() if value != OWNED_AT_BIRTH[name]}
    return await _ask_newborn(request, agent, asked, answer) if asked else answer


def _take_owned(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of the body that the supervisor owns; the rest stays."""
    return {name: body.pop(name) for name in OWNED_AT_BIRTH if name in body}


def _inherited_model(references: References) -> str:
    template = references.template
    if template is None or not template.default_model:
        raise Invalid({"model": [REQUIRED]})
    return template.default_model


def _newborn(organization_id: UUID, body: dict[str, Any], references: References, now: datetime) -> Agent:
    template, parent = references.template, references.parent
    lists = {"tags": tuple(body["tags"]), "adapters": tuple(dict.fromkeys(body["adapters"]))}
    return Agent(
        id=new_id(),
        organization_id=organization_id,
        template_name=template.name if template else None,
        parent_name=parent.name if parent else "",
        created_at=now,
        **{**body, **lists},
        **OWNED_AT_BIRTH,
    )


def _notice_of(agent: Agent) -> Notification | None:
    """What the parent is told; low, so it wakes nobody."""
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


async def _ask_newborn(
    request: web.Request, agent: Agent, owned: dict[str, Any], answer: web.Response
) -> web.Response:
    """Have the supervisor write its fields. Until it has, `answer` is true, and what a repeat is told."""
    storage = request.app[STORAGE]
    await request.app[REGISTRY].ask(agent.id, OwnedFields(**owned), admitted=True)
    agent = await storage.agents.get(agent.id) or agent
    answer = json_response(serialize_agent(agent), status=201)
    receipt = receipt_of(request, answer)
    if receipt is not None:
        await storage.receipts.replace_answer(receipt)
    return answer


async def list_agents(request: web.Request, caller: Caller) -> web.StreamResponse:
    query = read_query(request, QUERY)
    await require_organization(request, caller, query["organization"])
    await require_template(request, caller, query["template"])
    await require_agent(request, caller, query["parent"])
    agents = request.app[STORAGE].agents
    filters = AgentFilters(
        organization_ids=_organizations(caller, query["organization"]),
        include_archived=query["include_archived"],
        purpose=query["purpose"],
        tags=tuple(query["tag"]),
        template_id=query["template"],
        status=query["status"],
        parent_id=query["parent"],
        search=query["search"],
    )

    async def find(agent_id: UUID) -> Agent | None:
        last = await agents.get(agent_id)
        return last if last and last.organization_id in caller.roles else None

    listing = Listing(
        fetch=lambda page: agents.page(filters, page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_agent,
    )
    return await answer_list(request, query, listing)


def _organizations(caller: Caller, asked: UUID | None) -> tuple[UUID, ...]:
    return tuple(known for known in caller.roles if asked in {None, known})


async def get_agent(request: web.Request, caller: Caller) -> web.Response:
    return json_response(serialize_agent(await _agent(request, caller)))


async def change_agent(request: web.Request, caller: Caller) -> web.Response:
    app = request.app
    storage = app[STORAGE]
    agent = await _agent(request, caller)
    body = await read_body(request, BODY, partial=True)
    localize(body, DATETIME_FIELDS, ZoneInfo(body.get("timezone", agent.timezone)))
    owned = _take_owned(body)
    await resolve(storage, agent.organization_id, body)
    _check_against_archive(agent, owned)
    if "adapters" in body:
        body["adapters"] = list(dict.fromkeys(body["adapters"]))
    if owned:
        app[REGISTRY].require_room(agent.id)  # or it would be refused after the rest is stored
    try:
        changed = await storage.agents.update(agent.id, body)
    except ConstraintError as error:
        raise refusal(error, body) from error
    if owned:
        await app[REGISTRY].ask(agent.id, OwnedFields(**owned), admitted=True)
        changed = await storage.agents.get(agent.id)
    if body.keys() & CONCERN_THE_SUPERVISOR:
        app[REGISTRY].tell(agent.id, Signal.RELOAD)
    return _shown(changed)


def _check_against_archive(agent: Agent, owned: dict[str, Any]) -> None:
    """Refuse what an archived agent cannot do, before anything is stored; it has no schedule to clear."""
    status = owned.get("status", agent.status)
    if agent.status is AgentStatus.ARCHIVED and status is AgentStatus.RUNNING:
        raise Conflict("The agent is archived; restore it first.")
    if status is AgentStatus.ARCHIVED and owned.pop("sleep_until", None) is not None:
        raise Conflict("The agent is archived; restore it first.")


async def tag_agent(request: web.Request, caller: Caller) -> web.Response:
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request, TAGS)
    return _shown(await request.app[STORAGE].agents.tag(agent_id, body["tags"]))


async def untag_agent(request: web.Request, caller: Caller) -> web.Response:
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request, TAGS)
    return _shown(await request.app[STORAGE].agents.untag(agent_id, body["tags"]))


def _shown(agent: Agent | None) -> web.Response:
    if agent is None:
        raise NotFound
    return json_response(serialize_agent(agent))


async def delete_agent(request: web.Request, caller: Caller) -> web.Response:
    """From now on there is no such agent; its run is stopped, its rows follow in small batches."""
    agent_id = await agent_of_path(request, caller)
    if not await request.app[STORAGE].agents.delete(agent_id, request.app[CLOCK].now()):
        raise NotFound
    request.app[REGISTRY].tell(agent_id, Signal.RELOAD)
    return web.Response(status=204)


async def _agent(request: web.Request, caller: Caller) -> Agent:
    agent = await request.app[STORAGE].agents.get(path_id(request))
    if agent is None:
        raise NotFound
    caller.require_agent(agent.id, agent.organization_id)
    return agent


ROUTES = (
    for_callers(
        "GET", "/api/cloud/agents/", list_agents, "List agents", answer=list[AgentResponse], query=QUERY
    ),
    for_callers(
        "POST",
        "/api/cloud/agents/",
        create_agent,
        "Create an agent",
        status=201,
        answer=AgentResponse,
        body=BODY,
        idempotent=True,
        by_header=True,
    ),
    for_callers(
        "GET",
        "/api/cloud/agents/{id}/",
        get_agent,
        "Read an agent",
        answer=AgentResponse,
        run_access=RunAccess.RUNNING,
    ),
    for_callers(
        "PATCH",
        "/api/cloud/agents/{id}/",
        change_agent,
        "Change an agent",
        answer=AgentResponse,
        body=BODY,
        partial=True,
        refusals=frozenset({409}),
    ),
    for_callers(
        "POST",
        "/api/cloud/agents/{id}/tag/",
        tag_agent,
        "Add tags to an agent",
        answer=AgentResponse,
        body=TAGS,
    ),
    for_callers(
        "POST",
        "/api/cloud/agents/{id}/untag/",
        untag_agent,
        "Take tags from an agent",
        answer=AgentResponse,
        body=TAGS,
    ),
    for_callers("DELETE", "/api/cloud/agents/{id}/", delete_agent, "Delete an agent", status=204),
)
