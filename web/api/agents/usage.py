"""Usage: the tokens and the cost of model calls, of one agent or by day. It outlives the agents."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web
from marshmallow import ValidationError

from storage.agents.agents import RetainedAgent
from storage.history.usage import AgentCost, DailyUsage, DayUsage, ModelUsage, UsageRecord, UsageScope
from storage.ids import new_id
from storage.storage import Storage
from supervisors.engine.messages import Signal
from supervisors.llm.catalog import ModelCall
from web.access.auth import Caller, RunAccess
from web.access.path_access import load_owned, path_id, require_organization, turn_to_read
from web.app_keys import CLOCK, PRICES, REGISTRY, STORAGE
from web.errors import Invalid, PermissionDenied, require_found
from web.fields import MAX_INT32, Datetime, DayOrDatetime, Integer, Line, Money, Uuid, unknown_id
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.request.parsing import Body, localize, read_query
from web.routes import Routes

DATETIME_FIELDS = ("start_date", "end_date")


class NewUsageBody(Body):
    """One call of a model."""

    model = Line(required=True, blank=False, max_length=255)
    input_tokens = Integer(required=True, min_value=0, max_value=MAX_INT32)
    output_tokens = Integer(required=True, min_value=0, max_value=MAX_INT32)
    cached_tokens = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    """How many of the input tokens came from a cache, at most `input_tokens`."""
    cost_usd = Money(allow_none=True, load_default=None)
    """The cost in US dollars, with at most six decimals; null or left out: by the prices of the service."""
    trace_id = Uuid(data_key="trace", allow_none=True, load_default=None)
    """The trace of the call, of the same agent; null or left out: none, or that of the run whose token is
    used."""
    occurred_at = Datetime(allow_none=True, load_default=None)
    """When the call was made, which decides the day that it counts for; null or left out: now."""

    def check_together(self, checked: Mapping[str, Any]) -> None:
        """Raise ValidationError if there are more cached than input tokens: they are part of the input."""
        if checked["cached_tokens"] > checked["input_tokens"]:
            message = f"Ensure this value is less than or equal to {checked['input_tokens']}."
            raise ValidationError({"cached_tokens": [message]})


class UsageQuery(Body):
    """The period to sum up."""

    start_date = DayOrDatetime(load_default=None)
    """The start of the period, itself included; a date is midnight UTC. Left out: 30 days before the end."""
    end_date = DayOrDatetime(load_default=None)
    """The end of the period, itself excluded; a date is midnight UTC. Left out: now."""


class UsageRecordResponse(TypedDict):
    """One call of a model."""

    id: UUID
    """Chosen by the service."""
    agent: UUID
    """The agent that the call was made for."""
    trace: UUID | None
    """The trace of the call; null if there is none."""
    model: str
    """The name of the model, such as `openai/gpt-5`."""
    input_tokens: int
    """Tokens sent to the model, those from a cache included."""
    output_tokens: int
    """Tokens that the model produced."""
    cached_tokens: int
    """The part of the input tokens that came from a cache."""
    cost_usd: Decimal
    """The cost in US dollars, with six decimals at most; 0 also if it is not known."""
    priced: bool
    """Whether the cost is known; false if none was given and the service has no price of the model."""
    occurred_at: datetime
    """When the call was made."""


class ModelUsageResponse(TypedDict):
    """Sums over calls of one model."""

    input_tokens: int
    """Tokens sent to the model, those from a cache included."""
    output_tokens: int
    """Tokens that the model produced."""
    cached_tokens: int
    """The part of the input tokens that came from a cache."""
    total_cost_usd: Decimal
    """The cost in US dollars; calls without a known price count as 0."""
    llm_calls: int
    """The number of calls."""
    priced: bool
    """Whether the cost of all these calls is known; false if some count as 0 because their price is not."""


class UsageResponse(ModelUsageResponse):
    """The sums over the calls of an agent, in total and by model."""

    agent_id: UUID
    """The id of the agent."""
    agent_name: str
    """The name of the agent, which may have been deleted."""
    start_date: datetime
    """The start of the period, itself included."""
    end_date: datetime
    """The end of the period, itself excluded."""
    model_count: int
    """The number of models that were called."""
    model_breakdown: Mapping[str, ModelUsageResponse]
    """The sums by the name of the model, for the 500 most expensive models."""


serialize_usage_record = Serializer(UsageRecordResponse, UsageRecord)


serialize_sums = Serializer(ModelUsageResponse, ModelUsage, total_cost_usd="cost_usd", llm_calls="calls")

MAX_TOP_AGENTS = 20


class DailyUsageQuery(UsageQuery):
    """The period, at most 400 days long, and whose calls are summed up."""

    agent = Uuid(load_default=None)
    """Only calls for this agent, which may have been deleted."""
    organization = Uuid(load_default=None)
    """Only calls of this organization, for users who belong to several."""
    template = Uuid(load_default=None)
    """Only calls for the agents that have this template now."""
    top_agents = Integer(min_value=0, max_value=MAX_TOP_AGENTS, load_default=0)
    """How many of the most expensive agents are listed."""


class NamedUsageResponse(ModelUsageResponse):
    """Sums over the calls of one model, or of all models that are not listed one by one."""

    model: str | None
    """The name of the model; null: all models beyond the 10 most expensive ones, together."""


class DayUsageResponse(TypedDict):
    """The sums of one day."""

    day: str
    """The day in UTC, such as `2026-11-22`."""
    by_model: Sequence[ModelUsageResponse | None]
    """The sums of each model, in the order of `models`; null: there was no call."""


class AgentCostResponse(TypedDict):
    """What one agent cost."""

    agent: UUID
    """The id of the agent, which may have been deleted."""
    name: str
    """The name of the agent; "" if it is not known any more."""
    total_cost_usd: Decimal
    """The cost in US dollars; calls without a known price count as 0."""
    llm_calls: int
    """The number of calls."""


class DailyUsageResponse(TypedDict):
    """The sums over model calls by UTC day and model."""

    start_date: datetime
    """The start of the period, itself included."""
    end_date: datetime
    """The end of the period, itself excluded."""
    total: ModelUsageResponse
    """The sums over all calls."""
    model_count: int
    """The number of models that were called."""
    models: Sequence[NamedUsageResponse]
    """The sums of each of the 10 most expensive models, and at the end those of all others together."""
    days: Sequence[DayUsageResponse]
    """The days with calls, the earliest first."""
    top_agents: Sequence[AgentCostResponse]
    """The most expensive agents, as many as `top_agents` of the query asks for."""
    agent_max_cost_usd_per_day: Decimal | None
    """The cap of the agent or its template for a day; null: it has none, or no agent was asked for."""
    organization_max_cost_usd_per_day: Decimal | None
    """The cap of the organization for a day; null: it has none, or the answer is about several
    organizations."""


serialize_agent_cost = Serializer(AgentCostResponse, AgentCost, total_cost_usd="cost_usd", llm_calls="calls")


def _serialize_day(day: DayUsage, positions: Sequence[int | None]) -> DayUsageResponse:
    sums = map(day.by_model.get, positions)
    by_model = [None if each is None else serialize_sums(each) for each in sums]
    return {"day": day.day.isoformat(), "by_model": by_model}


def _serialize_model(usage: DailyUsage, position: int | None) -> NamedUsageResponse:
    sums = _add([day.by_model[position] for day in usage.days if position in day.by_model])
    name = None if position is None else usage.models[position]
    return {"model": name, **serialize_sums(sums)}


def _add(parts: Sequence[ModelUsage]) -> ModelUsage:
    return ModelUsage(
        model="",
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cached_tokens=sum(part.cached_tokens for part in parts),
        cost_usd=sum((part.cost_usd for part in parts), Decimal(0)),
        calls=sum(part.calls for part in parts),
        priced=all(part.priced for part in parts),
    )


routes = Routes()

DEFAULT_PERIOD = timedelta(days=30)
MIN_DATETIME = datetime.min.replace(tzinfo=UTC)
TRACE_OF_OTHER_AGENT = "This is not a trace of the agent."
START_AFTER_END = "start_date may not be after end_date."


@routes.get("/api/cloud/agents/{id}/usage/", query=UsageQuery)
async def get_usage(request: web.Request, caller: Caller) -> UsageResponse:
    """Sum up the model calls of an agent over a period, by default the last 30 days.

    It stays readable after the agent was deleted.
    """
    agent_id = path_id(request)
    agent = await load_owned(request, caller, request.app[STORAGE].agents.get_retained)
    query = read_query(request)
    localize(query, DATETIME_FIELDS, ZoneInfo(agent.timezone))
    start, end = _period(query, request.app[CLOCK].now(), "non_field_errors")
    sums = await request.app[STORAGE].usage.sum_by_model(agent_id, start, end)
    return {
        "agent_id": agent_id,
        "agent_name": agent.name,
        "start_date": start,
        "end_date": end,
        **serialize_sums(sums.total),
        "model_count": sums.model_count,
        "model_breakdown": {model.model: serialize_sums(model) for model in sums.models},
    }


@routes.create("/api/cloud/agents/{id}/usage/", body=NewUsageBody, run_access=RunAccess.FINISHING)
async def report_usage(request: web.Request, caller: Caller) -> UsageRecordResponse:
    """Report a model call of a harness of your own. The service records the calls of its own loop itself.

    The cost counts against the spending caps. A report with the token of a run counts against the
    organization only for what the agent's own cap leaves.
    """
    agent_id = path_id(request)
    storage = request.app[STORAGE]
    require_found(await storage.agents.get_organization_id(agent_id))  # a deleted agent is retained, too
    agent = require_found(await storage.agents.get_retained(agent_id))
    caller.require_agent(agent_id, agent.organization_id)
    body = await read_body_once(request, caller)
    localize(body, ("occurred_at",), ZoneInfo(agent.timezone))
    if caller.run is not None and body["trace_id"] is None:
        body["trace_id"] = caller.run.run_id  # a run and its trace have one id
    await _require_trace(request, caller, body["trace_id"], agent_id, agent.organization_id)
    record = await _build_record(request, agent_id, agent, body)
    answer = serialize_usage_record(record)
    cap_usd = None
    if caller.run is not None:  # without a cap of its agent it may report nothing against the organization
        cap_usd = await _agent_cap(storage, agent_id, record.occurred_at) or Decimal(0)
    await storage.usage.insert(record, receipt_of(request, answer), cap_usd=cap_usd)
    run_id = record.trace_id  # a run and its trace have one id
    registry = request.app[REGISTRY]
    registry.add_cost(agent_id, run_id, record.cost_usd)
    if run_id is None or not registry.is_run_alive(agent_id, run_id):
        registry.tell(agent_id, Signal.RELOAD)  # its budget may be spent although it rests
    return answer


async def _agent_cap(storage: Storage, agent_id: UUID, moment: datetime) -> Decimal | None:
    """Return the cap of the agent or its template; None if neither has one."""
    budgets = await storage.spending.list_budgets(agent_id, moment)
    return next((budget.cap_usd for budget in budgets if not budget.of_organization), None)


async def _require_trace(
    request: web.Request, caller: Caller, trace_id: UUID | None, agent_id: UUID, organization_id: UUID
) -> None:
    """Raise Invalid or PermissionDenied unless the trace is the agent's and the caller may write to it.

    A trace of another organization is refused even to a caller who belongs to both.
    """
    if trace_id is None:
        return
    owner = (await request.app[STORAGE].traces.list_owners({trace_id})).get(trace_id)
    if owner is None:
        raise Invalid({"trace": [unknown_id(trace_id)]})
    caller.require_trace(trace_id, owner.organization_id)
    if owner.organization_id != organization_id:
        raise PermissionDenied
    if owner.agent_id != agent_id:
        raise Invalid({"trace": [TRACE_OF_OTHER_AGENT]})


async def _build_record(
    request: web.Request, agent_id: UUID, agent: RetainedAgent, body: dict[str, Any]
) -> UsageRecord:
    """Return the record of a model call: at the reported cost, else by the price list, else unpriced."""
    occurred_at: datetime = body["occurred_at"] or request.app[CLOCK].now()
    tokens = {name: body[name] for name in ("input_tokens", "output_tokens", "cached_tokens")}
    cost: Decimal | None = body["cost_usd"]
    if cost is None:
        cost = await request.app[PRICES].cost_of(ModelCall(model=body["model"], **tokens, at=occurred_at))
    return UsageRecord(
        id=new_id(),
        organization_id=agent.organization_id,
        agent_id=agent_id,
        trace_id=body["trace_id"],
        model=body["model"],
        **tokens,
        cost_usd=cost or Decimal(0),
        priced=cost is not None,
        occurred_at=occurred_at,
    )


MAX_DAYS = 400
TOO_LONG = f"The period may be at most {MAX_DAYS} days long: choose a later start or an earlier end."


@routes.get("/api/cloud/usage/", query=DailyUsageQuery)
async def get_daily_usage(request: web.Request, caller: Caller) -> DailyUsageResponse:
    """Sum up the model calls of all agents of your organizations, or of some, by UTC day and model.

    Without `start_date` the period is 30 days long. Calls stay in the sums after their agents were deleted.
    """
    return await sum_daily_usage(request, caller, read_query(request))


async def sum_daily_usage(request: web.Request, caller: Caller, query: dict[str, Any]) -> DailyUsageResponse:
    """Return the sums for a `DailyUsageQuery`. Raise Invalid for a period that is refused."""
    localize(query, DATETIME_FIELDS, UTC)
    storage = request.app[STORAGE]
    start, end = _period(query, request.app[CLOCK].now(), "start_date")
    if end - start > timedelta(days=MAX_DAYS):
        raise Invalid({"start_date": [TOO_LONG]})
    owners = await _organizations(request, caller, query)
    scope = UsageScope(owners, start, end, query["agent"], query["template"])
    async with turn_to_read(request):
        usage = await storage.usage_by_day.sum_by_day(scope)
        limit = query["top_agents"]
        agents = await storage.usage_by_day.list_top_agents(scope, limit) if limit else []
    agent_cap = organization_cap = None
    if scope.agent_id is not None:
        agent_cap = await _agent_cap(storage, scope.agent_id, request.app[CLOCK].now())
    if len(owners) == 1:
        organization = await storage.organizations.get(*owners)
        organization_cap = organization.max_cost_usd_per_day if organization else None
    positions: list[int | None] = [*range(len(usage.models))]
    if usage.model_count > len(usage.models):
        positions.append(None)
    return {
        "start_date": start,
        "end_date": end,
        "total": serialize_sums(_add([sums for day in usage.days for sums in day.by_model.values()])),
        "model_count": usage.model_count,
        "models": [_serialize_model(usage, position) for position in positions],
        "days": [_serialize_day(day, positions) for day in usage.days],
        "top_agents": [serialize_agent_cost(agent) for agent in agents],
        "agent_max_cost_usd_per_day": agent_cap,
        "organization_max_cost_usd_per_day": organization_cap,
    }


def _period(query: dict[str, Any], now: datetime, field: str) -> tuple[datetime, datetime]:
    """Return the start and the end. Raise Invalid, with a message of this field, if they are swapped."""
    end: datetime = query["end_date"] or now
    start: datetime = query["start_date"] or end - min(DEFAULT_PERIOD, end - MIN_DATETIME)
    if start > end:
        raise Invalid({field: [START_AFTER_END]})
    return start, end


async def _organizations(request: web.Request, caller: Caller, query: dict[str, Any]) -> frozenset[UUID]:
    """Return the organizations to which everything that the query names belongs; all without such names.

    Raise PermissionDenied for other organizations' resources. An unknown id leaves no organization.
    """
    storage, owners = request.app[STORAGE], frozenset(caller.organizations)
    await require_organization(request, caller, query["organization"])
    if query["organization"] is not None:
        owners &= {query["organization"]}
    for resource_id, get in (
        (query["agent"], storage.agents.get_retained),
        (query["template"], storage.templates.get),
    ):
        if resource_id is None:
            continue
        resource = await get(resource_id)
        if resource is not None:
            caller.require(resource.organization_id)
        owners &= {resource.organization_id} if resource else frozenset()
    return owners
