"""Agents: create, list, read, change, delete.

These handlers store an agent's settings themselves. Its state (`paused`, `status`, `sleep_until` and the
like) belongs to its supervisor: once the settings are stored, they ask the supervisor to write those fields.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web
from marshmallow import ValidationError

from storage.agent_facts import WAKE_LIMITS
from storage.agents.actions import MAX_TAGS_BYTES
from storage.errors import ConstraintError, NotUnique, ReferenceMissing, TooManyTags
from storage.model import (
    Agent,
    AgentStatus,
    Language,
    Purpose,
    ReasoningEffort,
    Unpriced,
)
from storage.postgres.paging import Page
from supervisors.bounds import Bounds, bounds_of, raised
from supervisors.engine.messages import OwnedFieldsRequest, Signal
from supervisors.new_agents import (
    RUN_FIELD_DEFAULTS,
    SUPERVISOR_FIELD_DEFAULTS,
    build_agent,
    parent_notification,
)
from web.access.auth import Caller, RunAccess
from web.access.model_checks import require_usable, require_usable_change
from web.access.path_access import agent_of_path, load, load_agent, load_in_turn
from web.access.references import References, read_agent_filters, refusal, resolve, single_organization
from web.app_keys import CLOCK, REGISTRY, SETTINGS, STATUS, STORAGE
from web.errors import Conflict, Invalid, NotFound, require_found
from web.fields import (
    MAX_INT32,
    MIN_INT32,
    REQUIRED,
    Boolean,
    Choice,
    Datetime,
    Integer,
    Line,
    ListOf,
    LocalPart,
    Money,
    QuietHours,
    Text,
    Timezone,
    Uuid,
)
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer, to_json
from web.observability.requests import HEADERS
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, localize, read_body, read_query
from web.routes import Routes


class AgentBody(Body):
    """The writable fields of an agent.

    `paused`, `status` and `sleep_until` are owned by its supervisor: writing one is a message to it, and they
    are applied in this order. `run_started_at` and `last_wake_…` only runs change: a value for one of them is
    checked, but has no effect.
    """

    template_id = Uuid(data_key="template", allow_none=True, load_default=None)
    parent_id = Uuid(data_key="parent", allow_none=True, load_default=None)
    adapters = ListOf(Uuid(), load_default=list)
    tags = ListOf(Line(blank=False, max_length=255), load_default=list)
    name = Line(required=True, blank=False, max_length=255)
    model = Line(blank=False, max_length=255)
    """The model, as `<provider>/<name>`, without a provider at the default one. It may be left out if the
    template has a `default_model`, which is then copied."""
    timezone = Timezone(load_default="UTC", blank=False, max_length=255)
    system_prompt = Text(load_default="")
    email_alias = LocalPart(allow_none=True, load_default=None, blank=False, max_length=255)
    max_turns = Integer(min_value=MIN_INT32, max_value=MAX_INT32, load_default=0)
    max_sleep_hours = Integer(min_value=0, max_value=MAX_INT32, allow_none=True, load_default=None)
    harness_git_ref = Line(allow_none=True, load_default=None, max_length=255)
    reasoning_effort = Choice(ReasoningEffort, blank=True, load_default="")
    debounce_window_seconds = Integer(min_value=0, max_value=MAX_INT32, allow_none=True, load_default=None)
    call_voice_id = Line(load_default="", max_length=255)
    purpose = Choice(Purpose, load_default=Purpose.PRODUCTION)
    max_cost_usd_per_day = Money(allow_none=True, load_default=None)
    max_wakes_per_hour = Integer(min_value=1, max_value=MAX_INT32, allow_none=True, load_default=None)
    max_wakes_per_day = Integer(min_value=1, max_value=MAX_INT32, allow_none=True, load_default=None)
    quiet_hours = QuietHours(allow_none=True, load_default=None)
    language = Choice(Language, blank=True, load_default="")
    unpriced = Choice(Unpriced, allow_none=True, load_default=None)

    paused = Boolean()
    """A message to the supervisor: true stops the agent's run and holds every start, false lets what has
    fallen due start it."""
    status = Choice(AgentStatus)
    """A message to the supervisor: `running` requests a run, `sleeping` stops a run or restores an archived
    agent, `archived` archives it. The answer shows `running` only if a run has started."""
    sleep_until = Datetime(allow_none=True)
    """A message to the supervisor: when to wake, at the latest when `max_sleep_hours` allows, as with null; a
    time in the past wakes the agent now. During a run it applies if the run ends without asking for sleep."""
    run_started_at = Datetime(allow_none=True)
    """A datetime or null, without effect: only a run has a start, and the answer shows that of the active
    one."""
    last_wake_reason = Line(max_length=64)
    """Checked, but without effect: the answer shows why the last run started."""
    last_wake_interrupted_sleep_until = Datetime(allow_none=True)
    """A datetime or null, without effect: the answer shows which sleep the start of the last run cut
    short."""

    def checked(self, values: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
        """Check like any body, and report a missing model together with the other missing fields.

        The model may be left out if a template is named.
        """
        lacks_model = not (partial or "model" in values or values.get("template"))
        try:
            checked = super().checked(values, partial=partial)
        except ValidationError as error:
            if lacks_model:
                raise ValidationError({**error.messages_dict, "model": [REQUIRED]}) from error
            raise
        if lacks_model:
            raise ValidationError({"model": [REQUIRED]})
        return checked

    def check_together(self, checked: Mapping[str, Any]) -> None:
        if checked.get("status") is AgentStatus.ARCHIVED and checked.get("sleep_until") is not None:
            raise ValidationError({"sleep_until": ["An archived agent does not sleep."]})


class TagsBody(Body):
    """Tags to add or to remove."""

    tags = ListOf(Line(blank=False, max_length=255), required=True)
    """Tags that the agent already has, or has not, do no harm."""


DATETIME_FIELDS = ("sleep_until", "run_started_at", "last_wake_interrupted_sleep_until")


class AgentFilterQuery(Body):
    """The agents that a list shows."""

    include_archived = Boolean(load_default=False)
    """Whether archived agents are listed, too."""
    organization = Uuid(load_default=None)
    """Only agents of this organization, for users who belong to several."""
    purpose = Choice(Purpose, load_default=None)
    """Only agents with this purpose."""
    tag = ListOf(Line(blank=False, max_length=255), load_default=list)
    """Only agents with this tag; repeat it to ask for several, all of which an agent must have."""
    template = Uuid(load_default=None)
    """Only agents of this template."""
    status = Choice(AgentStatus, load_default=None)
    """Only agents with this status; `archived` implies `include_archived`."""
    parent = Uuid(load_default=None)
    """Only the children of this agent."""
    name = Line(blank=False, load_default=None)
    """Only agents with exactly this name, ignoring case."""
    search = Line(load_default=None)
    """Only agents whose name contains this text, ignoring case."""


class AgentQuery(AgentFilterQuery, PageQuery):
    pass


class AgentResponse(TypedDict):
    """A long-lived worker. It sleeps, runs when something wakes it, and sleeps again."""

    id: UUID
    """Chosen by the service."""
    adapters: Sequence[UUID]
    """The adapters whose tools the agent has. If tools have the same name, that of an earlier adapter keeps
    it."""
    organization: UUID
    """The organization that the agent belongs to."""
    template: UUID | None
    """The template whose settings the agent takes where its own are blank; null: none."""
    parent_name: str
    """The name of the parent; "" if there is none."""
    template_name: str | None
    """The name of the template; null if there is none."""
    tags: Sequence[str]
    """Labels of yours to filter by, in the order in which they were added."""
    name: str
    """Any name; several agents may have the same."""
    model: str
    """The model, as `<provider>/<name>`; without a provider at the default one. `builtin/inbox` needs no
    network."""
    created_at: datetime
    """When the agent was created."""
    timezone: str
    """An IANA time zone, in which the agent is told the time, and in which a datetime without an offset is
    read."""
    system_prompt: str
    """Instructions to the model; "": those of the template."""
    sleep_until: datetime | None
    """When the agent wakes by itself; null while it runs, or if only something new wakes it."""
    email_alias: str | None
    """The local part of the agent's e-mail address, unique in the whole service, ignoring case; null: none.
    The service only stores it."""
    status: AgentStatus
    """Whether the agent runs, sleeps or is archived."""
    paused: bool
    """Whether the agent is paused: its run is stopped and nothing starts it. What comes or falls due wakes it
    when the pause ends."""
    run_started_at: datetime | None
    """When the active run started; null if there is none."""
    last_wake_reason: str
    """Why the last run started: `run_requested`, `notification:<source>`, `reminder`, `sleep_elapsed`,
    `restart_recovery`, `retry_after_failure` or `uncleared_notifications`; "" before the first run."""
    last_wake_interrupted_sleep_until: datetime | None
    """The `sleep_until` that the start of the last run cut short; null if there was none."""
    max_turns: int
    """How many turns a run may have. 0: the template's limit, else `runs.max_turns`; a negative number: no
    limit."""
    max_sleep_hours: int | None
    """The maximum length of a sleep in hours, counted from the start of the run; null: no limit. A change
    applies from the next run on."""
    harness_git_ref: str | None
    """The branch, tag or commit whose code a process harness runs; null or "": that of the template, else the
    newest `main`."""
    reasoning_effort: str
    """How much the model should think; "": the effort of the template. `none` sends no effort to the
    model."""
    debounce_window_seconds: int | None
    """How many seconds a conversation must pause before it wakes the agent. 0: it wakes at once; null: the
    template's window."""
    call_voice_id: str
    """Only stored; it has no effect."""
    purpose: Purpose
    """A label to filter by; it has no other effect."""
    parent: UUID | None
    """The agent that this one works for; null: none. Both can send messages to each other, and parents make
    no cycle."""
    max_cost_usd_per_day: Decimal | None
    """What the agent may spend in a UTC day, in US dollars with at most six decimals; null: as much as the
    template allows. 0 allows no run."""
    language: str
    """The language whose word stems searches find, in documents that are written from then on; "": words are
    found only as they are written."""
    unpriced: Unpriced | None
    """Whether the agent's cap allows calls of models whose price is not known; null: the template says."""
    max_wakes_per_hour: int | None
    """How many runs may start in any 60 minutes; null: as many as the template allows. Only run requests and
    urgent notifications start more, and count, too; what else would start one waits."""
    max_wakes_per_day: int | None
    """The same for a day of the agent's time zone; null: as many as the template allows."""
    quiet_hours: str | None
    """When only run requests and urgent notifications start the agent, in its time zone: `22:00-07:00`, or
    with days on which it begins `Mon-Fri 22:00-07:00`, several with `, ` between them; "": never; null: the
    template says."""


serialize_agent = Serializer(AgentResponse, Agent)

routes = Routes()

TOO_MANY_TAGS = (
    "An agent may have at most {} tags (limits.tags_per_agent), which take at most {} bytes as JSON together."
)
SETTINGS_READ_BY_SUPERVISOR = frozenset(
    {"template_id", "debounce_window_seconds", "max_sleep_hours", "max_cost_usd_per_day", "unpriced"}
    | {"timezone", *WAKE_LIMITS}
)


@routes.create("/api/cloud/agents/", body=AgentBody, by_header=True)
async def create_agent(request: web.Request, caller: Caller) -> AgentResponse:
    """Create an agent, asleep unless the body says otherwise.

    If it has a parent, the parent gets a low notification. If its template has an
    `agent_created_webhook_url`, a webhook is sent to it. If the organization already has `limits.agents`
    agents, the answer is 400. So it is if no provider has the model, or a spending cap refuses it because its
    price is not known.
    """
    app = request.app
    storage = app[STORAGE]
    body = await read_body_once(request, caller)
    _check_tags(request, body)
    localize(body, DATETIME_FIELDS, ZoneInfo(body["timezone"]))
    supervisor_fields = _pop_supervisor_fields(body)
    named = await resolve(storage, partial(single_organization, request, caller), body)
    agent = await _build(request, body, named)
    answer = serialize_agent(agent)
    try:
        notice, receipt = parent_notification(agent), receipt_of(request, answer)
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


async def _build(request: web.Request, body: dict[str, Any], named: References) -> Agent:
    """Return a new agent. Raise Invalid if it would have no model, or one that cannot be used."""
    owner, template, parent = named
    body.setdefault("model", template.default_model if template else "")
    if not body["model"]:
        raise Invalid({"model": [REQUIRED]})
    await require_usable(request, owner, body, template)
    return build_agent(body, owner, template, parent, request.app[CLOCK].now())


async def create_of_template(
    request: web.Request, template_id: UUID, agent_id: UUID, name: str, actor: str
) -> None:
    """Create an agent with this id and the adapters that the template configures, unless there is one.

    Raise ReferenceMissing if the template is gone, and the errors of `_build`.
    """
    storage = request.app[STORAGE]
    if await storage.agents.get_organization_id(agent_id) is not None:
        return
    template = await storage.templates.get(template_id)
    if template is None:
        raise ReferenceMissing("template")
    owner = template.organization_id
    configs = await storage.adapter_configs.list_page((owner,), template_id, None, Page())
    adapters = [str(each.adapter_id) for each in configs]
    body = AgentBody().checked({"name": name, "template": str(template_id), "adapters": adapters})
    agent = await _build(request, body, References(owner, template, None))
    with suppress(NotUnique):
        await storage.agents.insert(replace(agent, id=agent_id), None, actor=actor)


def _pop_supervisor_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Remove the fields that the supervisor owns from the body; return those that a client may set."""
    for name in RUN_FIELD_DEFAULTS:
        body.pop(name, None)
    return {name: body.pop(name) for name in SUPERVISOR_FIELD_DEFAULTS if name in body}


async def _answer_after_supervisor(
    request: web.Request, agent: Agent, owned: OwnedFieldsRequest
) -> AgentResponse:
    """Have the supervisor write its fields, then answer with the whole agent.

    Until it has, the answer stored in the receipt is still true, and a repeated request gets that one.
    """
    storage = request.app[STORAGE]
    await request.app[REGISTRY].ask(agent.id, owned, admitted=True)
    agent = await storage.agents.get(agent.id) or agent
    answer = serialize_agent(agent)
    receipt = receipt_of(request, answer)
    if receipt is not None:
        await storage.receipts.update_answer(receipt)
    return answer


@routes.get("/api/cloud/agents/", answer=list[AgentResponse], query=AgentQuery)
async def list_agents(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the agents of your organizations, newest first, without archived ones unless you ask for them."""
    query = read_query(request)
    filters = await read_agent_filters(request, caller, query)
    agents = request.app[STORAGE].agents
    fetch = partial(agents.list_rows, filters)
    return await answer_owned(request, query, caller.organizations, agents.get, fetch, serialize_agent.row)


@routes.get("/api/cloud/agents/{id}/", run_access=RunAccess.RUNNING)
async def get_agent(request: web.Request, caller: Caller) -> AgentResponse:
    """Read one agent. The token of a run may read the run's own agent."""
    row = await load(request, request.app[STORAGE].agents.get.rows)
    caller.require_agent(row["id"], row["organization_id"])
    return serialize_agent.row(row)


@routes.patch("/api/cloud/agents/{id}/", body=AgentBody, refusals={409})
async def change_agent(request: web.Request, caller: Caller) -> AgentResponse:
    """Change the fields that the body contains; `adapters` and `tags` are replaced as a whole.

    A new debounce window or limit on wakes applies to a current wait at once, and a higher spending cap wakes
    an agent that is due. A run or a sleep of an archived agent is refused with 409. If the supervisor has too
    many requests waiting, the answer is 503 and nothing is changed. `X-Bounds-Raised` names the bounds of the
    agent that are higher than before, such as `wakes_per_day=48`.
    """
    app = request.app
    storage = app[STORAGE]
    agent = await load_agent(request, caller)
    body = await read_body(request)
    _check_tags(request, body)
    localize(body, DATETIME_FIELDS, ZoneInfo(body.get("timezone", agent.timezone)))
    supervisor_fields = _pop_supervisor_fields(body)
    await resolve(storage, lambda _: agent.organization_id, body)
    await require_usable_change(request, agent, body)
    _refuse_while_archived(agent, supervisor_fields)
    if "adapters" in body:
        body["adapters"] = list(dict.fromkeys(body["adapters"]))
    is_reread = bool(body.keys() & SETTINGS_READ_BY_SUPERVISOR)
    bounds = await _read_bounds(request) if is_reread else None
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
    if is_reread:
        app[REGISTRY].tell(agent.id, Signal.RELOAD)
    if bounds is not None and (higher := raised(bounds, await _read_bounds(request))):
        request[HEADERS]["X-Bounds-Raised"] = higher
    return serialize_agent(require_found(changed))


def _refuse_while_archived(agent: Agent, supervisor_fields: dict[str, Any]) -> None:
    """Raise Conflict for a run or a sleep of an archived agent.

    Such an agent has no sleep to end, so a null `sleep_until` is dropped from the fields.
    """
    status = supervisor_fields.get("status", agent.status)
    if agent.status is AgentStatus.ARCHIVED and status is AgentStatus.RUNNING:
        raise Conflict("The agent is archived; restore it first.")
    if status is AgentStatus.ARCHIVED and supervisor_fields.pop("sleep_until", None) is not None:
        raise Conflict("The agent is archived; restore it first.")


@routes.get("/api/cloud/agents/{id}/bounds/")
async def get_bounds(request: web.Request, caller: Caller) -> Bounds:
    """Read what the settings of an agent guarantee: how often it wakes, what it spends, how long it waits.

    A PATCH of the agent that raises one of these bounds names it in `X-Bounds-Raised`.
    """
    await agent_of_path(request, caller)
    return await _read_bounds(request)


async def _read_bounds(request: web.Request) -> Bounds:
    """Return the bounds of the agent in the path."""
    present = await load_in_turn(request, request.app[STATUS].present)
    return bounds_of(present.facts, present.policy)


@routes.post("/api/cloud/agents/{id}/tag/", body=TagsBody)
async def tag_agent(request: web.Request, caller: Caller) -> AgentResponse:
    """Add tags to an agent; those that it already has stay where they are."""
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request)
    agents, max_tags = request.app[STORAGE].agents, request.app[SETTINGS].limits.tags_per_agent
    now = request.app[CLOCK].now()
    try:
        tagged = await agents.tag(agent_id, body["tags"], max_tags, now, actor=caller.identity)
    except TooManyTags as error:
        raise Invalid({"tags": [TOO_MANY_TAGS.format(max_tags, MAX_TAGS_BYTES)]}) from error
    return serialize_agent(require_found(tagged))


def _check_tags(request: web.Request, body: dict[str, Any]) -> None:
    """Raise Invalid if the body has more tags than an agent may have, or longer ones."""
    tags, max_tags = body.get("tags", ()), request.app[SETTINGS].limits.tags_per_agent
    if len(tags) > max_tags or len(to_json(tags)) > MAX_TAGS_BYTES:
        raise Invalid({"tags": [TOO_MANY_TAGS.format(max_tags, MAX_TAGS_BYTES)]})


@routes.post("/api/cloud/agents/{id}/untag/", body=TagsBody)
async def untag_agent(request: web.Request, caller: Caller) -> AgentResponse:
    """Remove tags from an agent; those that it does not have are ignored."""
    agent_id = await agent_of_path(request, caller)
    body = await read_body(request)
    now = request.app[CLOCK].now()
    agents = request.app[STORAGE].agents
    untagged = await agents.untag(agent_id, body["tags"], now, actor=caller.identity)
    return serialize_agent(require_found(untagged))


@routes.delete("/api/cloud/agents/{id}/")
async def delete_agent(request: web.Request, caller: Caller) -> None:
    """Delete an agent and stop its run. Its data is deleted in small batches afterwards.

    It answers 404 from now on, and its children have no parent. Its usage and traces stay readable for the
    time that the operator has set.
    """
    agent_id = await agent_of_path(request, caller)
    agents, now = request.app[STORAGE].agents, request.app[CLOCK].now()
    if not await agents.delete(agent_id, now, actor=caller.identity):
        raise NotFound
    request.app[REGISTRY].tell(agent_id, Signal.RELOAD)
