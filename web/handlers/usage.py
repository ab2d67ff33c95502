"""Usage: the tokens and the cost of an agent's model calls. It outlives the agent."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.agents.agents import RetainedAgent
from storage.history.usage import UsageRecord
from storage.ids import new_id
from storage.storage import Storage
from supervisors.engine.messages import Signal
from supervisors.llm.catalog import ModelCall
from web.access.auth import Caller, RunAccess
from web.access.path_access import load_owned, path_id
from web.app_keys import CLOCK, PRICES, REGISTRY, STORAGE
from web.errors import Invalid, PermissionDenied, require_found
from web.fields import unknown_id
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.request.local_times import localize
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.usage import (
    DATETIME_FIELDS,
    NewUsageBody,
    UsageQuery,
    UsageRecordResponse,
    UsageResponse,
    serialize_usage,
    serialize_usage_record,
)

routes = Routes()

NEW = NewUsageBody()
QUERY = UsageQuery()

DEFAULT_PERIOD = timedelta(days=30)
MIN_DATETIME = datetime.min.replace(tzinfo=UTC)
TRACE_OF_OTHER_AGENT = "This is not a trace of the agent."
START_AFTER_END = "start_date may not be after end_date."


@routes.get("/api/cloud/agents/{id}/usage/", answer=UsageResponse, query=QUERY)
async def get_usage(request: web.Request, caller: Caller) -> web.Response:
    """Sum up the model calls of an agent over a period, by default the last 30 days.

    It stays readable after the agent was deleted.
    """
    agent_id = path_id(request)
    agent = await load_owned(request, caller, request.app[STORAGE].agents.get_retained)
    query = read_query(request, QUERY)
    localize(query, DATETIME_FIELDS, ZoneInfo(agent.timezone))
    end: datetime = query["end_date"] or request.app[CLOCK].now()
    start: datetime = query["start_date"] or end - min(DEFAULT_PERIOD, end - MIN_DATETIME)
    if start > end:
        raise Invalid({"non_field_errors": [START_AFTER_END]})
    sums = await request.app[STORAGE].usage.sum_by_model(agent_id, start, end)
    return json_response(serialize_usage(agent_id, agent.name, start, end, sums))


@routes.create(
    "/api/cloud/agents/{id}/usage/", answer=UsageRecordResponse, body=NEW, run_access=RunAccess.FINISHING
)
async def report_usage(request: web.Request, caller: Caller) -> web.Response:
    """Report a model call of a harness of your own. The service records the calls of its own loop itself.

    The cost counts against the spending caps. A report with the token of a run counts against the
    organization only for what the agent's own cap leaves.
    """
    agent_id = path_id(request)
    storage = request.app[STORAGE]
    require_found(await storage.agents.get_organization_id(agent_id))  # a deleted agent is retained, too
    agent = require_found(await storage.agents.get_retained(agent_id))
    caller.require_agent(agent_id, agent.organization_id)
    body = await read_body_once(request, caller, NEW)
    localize(body, ("occurred_at",), ZoneInfo(agent.timezone))
    if caller.run is not None and body["trace_id"] is None:
        body["trace_id"] = caller.run.run_id  # a run and its trace have one id
    await _require_trace(request, caller, body["trace_id"], agent_id, agent.organization_id)
    record = await _build_record(request, agent_id, agent, body)
    answer = json_response(serialize_usage_record(record), status=201)
    cap_usd = None if caller.run is None else await _agent_cap(storage, agent_id, record.occurred_at)
    await storage.usage.insert(record, receipt_of(request, answer), cap_usd=cap_usd)
    run_id = record.trace_id  # a run and its trace have one id
    registry = request.app[REGISTRY]
    registry.add_cost(agent_id, run_id, record.cost_usd)
    if run_id is None or not registry.is_run_alive(agent_id, run_id):
        registry.tell(agent_id, Signal.RELOAD)  # its budget may be spent although it rests
    return answer


async def _agent_cap(storage: Storage, agent_id: UUID, moment: datetime) -> Decimal:
    """Return what a run of the agent may report against its organization: nothing if the agent has no cap."""
    budgets = await storage.spending.list_budgets(agent_id, moment)
    return next((budget.cap_usd for budget in budgets if not budget.of_organization), Decimal(0))


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
