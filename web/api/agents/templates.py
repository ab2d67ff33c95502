"""Templates: defaults that many agents share."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypedDict
from uuid import UUID

from aiohttp import web

from storage.agent_facts import WAKE_LIMITS
from storage.ids import new_id
from storage.model import CarryOver, Content, ReasoningEffort, Reply, Role, Template, ToolChoice, Unpriced
from supervisors.engine.messages import Signal
from supervisors.engine.registry import tell_agents_of_template
from supervisors.settings import MAX_CONTEXT_TOKENS
from web.access.approval_rules import check_schema
from web.access.auth import Caller, requested_organization
from web.access.model_checks import (
    READ_BY_PRICE_CHECK,
    require_known_default,
    require_priced_default,
    warn_of_refused_models,
)
from web.access.path_access import load_owned
from web.app_keys import CLOCK, REGISTRY, STORAGE
from web.errors import Conflict, require_found
from web.fields import (
    MAX_INT32,
    MAX_SIDE_TEXT,
    Boolean,
    Choice,
    Integer,
    JsonObject,
    Line,
    Money,
    Number,
    QuietHours,
    Text,
    Url,
)
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import PageQuery, answer_owned
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes
from web.secret_fields import SecretNames

MAX_RETENTION_DAYS = 36_500
MAX_TEMPERATURE = 2
APPROVAL_HOURS = 7 * 24
FOR_ADMINS = ("approvers", "approval_hours")  # may change these fields
MAX_APPROVAL_HOURS = 10 * 366 * 24


class TemplateBody(Body):
    """The writable fields of a template."""

    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="", max_length=MAX_SIDE_TEXT)
    system_prompt = Text(load_default="")
    default_model = Line(load_default="", max_length=255)
    default_reasoning_effort = Choice(ReasoningEffort, load_default=ReasoningEffort.NONE)
    thinking_max_tokens = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    max_turns = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    debounce_window_seconds = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    harness_git_ref = Line(load_default="", max_length=255)
    agent_created_webhook_url = Url(load_default="", max_length=200)
    tool_call_secret = Text(load_default="", max_length=255, allow_none=True)
    """Signs webhooks and tool calls; "" leaves them unsigned. null is like leaving the field out, so that a
    member can send back what it has read."""
    max_cost_usd_per_day = Money(allow_none=True, load_default=None)
    context_tokens = Integer(min_value=0, max_value=MAX_CONTEXT_TOKENS, load_default=0)
    carry_over = Choice(CarryOver, load_default=CarryOver.JOURNAL)
    reply = Choice(Reply, load_default=Reply.TOOL)
    content = Choice(Content, blank=True, load_default="")
    content_days = Integer(min_value=0, max_value=MAX_RETENTION_DAYS, allow_none=True, load_default=None)
    environment_secrets = SecretNames(load_default=list)
    unpriced = Choice(Unpriced, load_default=Unpriced.REFUSE)
    may_create_contacts = Boolean(load_default=True)
    temperature = Number(max_value=MAX_TEMPERATURE, allow_none=True, load_default=None)
    max_output_tokens = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    tool_choice = Choice(ToolChoice, load_default=ToolChoice.AUTO)
    response_format = JsonObject(allow_none=True, load_default=None)
    may_create_agents = Boolean(load_default=False)
    max_wakes_per_hour = Integer(min_value=1, max_value=MAX_INT32, allow_none=True, load_default=None)
    max_wakes_per_day = Integer(min_value=1, max_value=MAX_INT32, allow_none=True, load_default=None)
    quiet_hours = QuietHours(load_default="")
    approvers = Choice(Role, load_default=Role.ADMIN)
    approval_hours = Integer(
        min_value=1, max_value=MAX_APPROVAL_HOURS, allow_none=True, load_default=APPROVAL_HOURS
    )


class TemplateDeletionQuery(Body):
    """How to delete a template."""

    detach = Boolean(load_default=False)
    """Whether agents of the template keep the settings that they inherit; without it a template in use is not
    deleted."""


class TemplateResponse(TypedDict):
    """Settings that many agents share. A change reaches all agents that leave the setting blank."""

    id: UUID
    """Chosen by the service."""
    organization: UUID
    """The organization that the template belongs to."""
    name: str
    """Any name; several templates may have the same."""
    created_at: datetime
    """When the template was created."""
    description: str
    """A text for people; "" if there is none."""
    system_prompt: str
    """Instructions to the model, for agents that have none of their own; "": none."""
    default_model: str
    """The model that is copied into a new agent that names none; "": each agent must name one."""
    default_reasoning_effort: ReasoningEffort
    """How much the model should think, for agents that do not say. `none` sends no effort to the model."""
    thinking_max_tokens: int
    """The maximum number of tokens for thinking, sent instead of the effort to models that know it; 0: no
    maximum is sent."""
    max_turns: int
    """How many turns a run may have, for agents that do not say; 0: `runs.max_turns` of the service."""
    debounce_window_seconds: int
    """How many seconds a conversation must pause before it wakes an agent that has no window of its own; 0:
    it wakes at once."""
    harness_git_ref: str
    """The branch, tag or commit whose code a process harness runs, for agents that do not say; "": the newest
    `main`."""
    agent_created_webhook_url: str
    """An http or https URL, which gets a signed POST request for each agent that is created from the
    template; "": none."""
    tool_call_secret: str | None
    """The secret that signs tool calls and webhooks: `whsec_` and Base64, or any other text; "": they are not
    signed. null is a secret that is not shown: members and repeated answers never get it, and one that cannot
    be decrypted must be set again."""
    max_cost_usd_per_day: Decimal | None
    """What each agent without a cap of its own may spend in a UTC day, in US dollars with at most six
    decimals; null: no cap. 0 allows no run."""
    context_tokens: int
    """About how many tokens the first message of a run may have; 0: `runs.context_tokens` of the service."""
    carry_over: CarryOver
    """How much of its earlier runs an agent is told when it wakes."""
    reply: Reply
    """How an agent answers the contact that woke it."""
    content: str
    """Whether traces keep what the model was told and answered, and streams show it live: `full` or `none`;
    "": `tracing.content` of the service."""
    content_days: int | None
    """How many days these texts are kept; null: `retention.tracing_content_days` of the service. 0: as
    long as their trace."""
    environment_secrets: Sequence[str]
    """The names of the secrets that a process harness gets as environment variables, at most 24. Each is a
    secret of the template, else of the organization; a run fails if there is no such secret."""
    unpriced: Unpriced
    """Whether the cap allows calls of models whose price is not known."""
    may_create_contacts: bool
    """Whether agents may create contacts by their tools or change the addresses of contacts, and so write to
    people who have never written to them. It does not bind agents that they create from other templates."""
    temperature: float | None
    """How freely the model chooses its words, from 0 to 2; null: as the provider does. A model that refuses
    this field or one of the following is asked without it, and the span of the call says so."""
    max_output_tokens: int
    """How many tokens an answer may have, its reasoning included; 0: as many as the provider allows. A longer
    one is cut off, which fails the run."""
    tool_choice: ToolChoice
    """Whether the model may or must call tools."""
    response_format: dict[str, Any] | None
    """A JSON Schema (2020-12) of at most 16 KiB that the final answer of each run must fit, so that `output`
    of the run is JSON; null: it may be any text. The model may repair an answer once; if it still does not
    fit, the run fails."""
    may_create_agents: bool
    """Whether agents have the tool `create_agent`, which creates agents that work for them."""
    max_wakes_per_hour: int | None
    """How many runs of an agent may start in any 60 minutes, for agents that do not say; null: no limit."""
    max_wakes_per_day: int | None
    """The same for a day of the agent's time zone; null: no limit."""
    quiet_hours: str
    """When only run requests and urgent notifications start an agent that does not say, in its time zone,
    such as `Mon-Fri 22:00-07:00`; "": never."""
    approvers: Role
    """The lowest role that may decide about calls of its agents that need an approval, and answer their
    questions; API keys act as admins. Only admins and owners change it."""
    approval_hours: int | None
    """After how many hours such a call or question, if it is made from now on, expires without a decision;
    null: never. Only admins and owners change it."""


def without_hidden_secret(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body without a null secret, which stands for one that is not shown and changes nothing."""
    return {name: value for name, value in body.items() if name != "tool_call_secret" or value is not None}


_serialize_all = Serializer(TemplateResponse, Template)


def serialize_template(template: Template, caller: Caller) -> TemplateResponse:
    """Return the response, whose secret only admins and owners see; others see null. "" is no secret."""
    secret, is_shown = template.tool_call_secret, caller.is_admin(template.organization_id)
    return {**_serialize_all(template), "tool_call_secret": secret if is_shown or not secret else None}


routes = Routes()


@routes.create("/api/templates/", body=TemplateBody, by_header=True)
async def create_template(request: web.Request, caller: Caller) -> TemplateResponse:
    """Create a template. If its `default_model` has no provider, or no price and its cap refuses it: 400.

    A repeated request with the same `Idempotency-Key` gets the first answer without its `tool_call_secret`.
    """
    organization_id = requested_organization(request, caller)
    body = await read_body_once(request, caller)
    body["tool_call_secret"] = body["tool_call_secret"] or ""
    require_known_default(request, body["default_model"])
    await require_priced_default(request, body)
    await _check_response_format(request, organization_id, body)
    now = request.app[CLOCK].now()
    template = Template(id=new_id(), organization_id=organization_id, created_at=now, **body)
    receipt = receipt_of(request, _serialize_all(template), "tool_call_secret")
    await request.app[STORAGE].templates.insert(template, receipt, actor=caller.identity)
    return serialize_template(template, caller)


async def _check_response_format(request: web.Request, organization_id: UUID, body: dict[str, Any]) -> None:
    """Raise Invalid if the format is too long, as each request to a model has it, or no JSON Schema."""
    if (schema := body.get("response_format")) is not None:
        await check_schema(request.app, organization_id, "response_format", schema)


@routes.get("/api/templates/{id}/")
async def get_template(request: web.Request, caller: Caller) -> TemplateResponse:
    """Read one template."""
    return serialize_template(await load_owned(request, caller, request.app[STORAGE].templates.get), caller)


@routes.patch("/api/templates/{id}/", body=TemplateBody)
async def change_template(request: web.Request, caller: Caller) -> TemplateResponse:
    """Change the fields that the body contains. All agents that inherit them are affected.

    New debounce windows and limits on wakes apply to current waits at once; a higher cap wakes agents that
    are due. If the cap refuses models of its agents, whose prices are not known, `X-Unpriced-Models` names
    them.
    """
    storage = request.app[STORAGE]
    template = await load_owned(request, caller, storage.templates.get)
    changes = without_hidden_secret(await read_body(request))
    if any(name in changes and changes[name] != getattr(template, name) for name in FOR_ADMINS):
        caller.require_admin(template.organization_id)
    if changes.get("default_model", template.default_model) != template.default_model:
        require_known_default(request, changes["default_model"])
    await _check_response_format(request, template.organization_id, changes)
    if changes.keys() & READ_BY_PRICE_CHECK:
        changed_fields = {name: changes.get(name, getattr(template, name)) for name in READ_BY_PRICE_CHECK}
        await require_priced_default(request, changed_fields)
    changed = require_found(
        await storage.templates.update(template.id, changes, request.app[CLOCK].now(), actor=caller.identity)
    )
    if changed.debounce_window_seconds != template.debounce_window_seconds:
        for agent_id in await storage.agents.list_holding_of_template(template.id):
            request.app[REGISTRY].tell(agent_id, Signal.RELOAD)
    if changes.keys() & {"max_cost_usd_per_day", "unpriced", *WAKE_LIMITS}:
        await tell_agents_of_template(template.id, storage.agent_states, request.app[REGISTRY])
    if changes.keys() & READ_BY_PRICE_CHECK:
        await warn_of_refused_models(request, changed, storage.agents.list_models_of_template)
    return serialize_template(changed, caller)


@routes.get("/api/templates/", answer=list[TemplateResponse], query=PageQuery)
async def list_templates(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the templates of your organizations, newest first."""
    templates = request.app[STORAGE].templates
    query, owners = read_query(request), caller.organizations
    fetch = partial(templates.list_page, owners)
    serialize = partial(serialize_template, caller=caller)
    return await answer_owned(request, query, owners, templates.get, fetch, serialize)


@routes.delete("/api/templates/{id}/", query=TemplateDeletionQuery, refusals={409})
async def delete_template(request: web.Request, caller: Caller) -> None:
    """Delete a template with its adapter configs.

    While agents use it, the answer is 409, unless `detach` lets them keep the settings that they inherit. Its
    pending webhooks fail, because they can no longer be signed.
    """
    storage = request.app[STORAGE]
    template = await load_owned(request, caller, storage.templates.get)
    if read_query(request)["detach"]:
        holding = await storage.agents.list_holding_of_template(template.id)
        await storage.templates.delete_detaching(template.id, request.app[CLOCK].now(), actor=caller.identity)
        for agent_id in holding:
            request.app[REGISTRY].tell(agent_id, Signal.RELOAD)
    else:
        agent_count = await storage.templates.delete_unused(template.id)
        if agent_count:
            agents_use = "1 agent uses" if agent_count == 1 else f"{agent_count} agents use"
            raise Conflict(f"{agents_use} this template. With ?detach=true they keep what they inherit.")
