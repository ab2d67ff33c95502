"""Usage: what an agent's model calls used and cost. It stays readable when the agent is deleted."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.agents.agents import RetainedAgent
from storage.history.usage import UsageRecord
from storage.ids import new_id
from supervisors.llm.pricing import ModelCall
from web.access.auth import Caller, RunAccess
from web.access.path_access import path_id
from web.app_keys import CLOCK, PRICES, STORAGE
from web.errors import Invalid, NotFound, PermissionDenied
from web.fields import unknown_id
from web.idempotency import read_body_once, receipt_of
from web.json import json_response
from web.request.local_times import localize
from web.request.parsing import read_query
from web.routes import for_callers
from web.schemas.usage import (
    DATETIME_FIELDS,
    NewUsageBody,
    UsageQuery,
    UsageRecordResponse,
    UsageResponse,
    serialize_usage,
    serialize_usage_record,
)

NEW = NewUsageBody()
QUERY = UsageQuery()

USUAL_PERIOD = timedelta(days=30)
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
OTHER_AGENT = "This is not a trace of the agent."
BACKWARDS = "start_date may not be after end_date."


async def get_usage(request: web.Request, caller: Caller) -> web.Response:
    agent_id = path_id(request)
    agent = await _remembered(request, agent_id)
    caller.require(agent.organization_id)
    query = read_query(request, QUERY)
    localize(query, DATETIME_FIELDS, ZoneInfo(agent.timezone))
    end: datetime = query["end_date"] or request.app[CLOCK].now()
    start: datetime = query["start_date"] or end - min(USUAL_PERIOD, end - FIRST_MOMENT)
    if start > end:
        raise Invalid({"non_field_errors": [BACKWARDS]})
    models = await request.app[STORAGE].usage.by_model(agent_id, start, end)
    return json_response(serialize_usage(agent_id, agent.name, start, end, models))


async def report_usage(request: web.Request, caller: Caller) -> web.Response:
    """For harnesses outside; the calls of the service's own loop are recorded by itself."""
    agent_id = path_id(request)
    storage = request.app[STORAGE]
    if await storage.agents.organization_of(agent_id) is None:
        raise NotFound
    agent = await _remembered(request, agent_id)
    caller.require_agent(agent_id, agent.organization_id)
    body = await read_body_once(request, caller, NEW)
    localize(body, ("occurred_at",), ZoneInfo(agent.timezone))
    if caller.run is not None and body["trace_id"] is None:
        body["trace_id"] = caller.run.run_id  # a run reports what is its own
    await _require_trace(request, caller, body["trace_id"], agent_id, agent.organization_id)
    record = await _record(request, agent_id, agent, body)
    answer = json_response(serialize_usage_record(record), status=201)
    await storage.usage.insert(record, receipt_of(request, answer))
    return answer


async def _remembered(request: web.Request, agent_id: UUID) -> RetainedAgent:
    agent = await request.app[STORAGE].agents.get_retained(agent_id)
    if agent is None:
        raise NotFound
    return agent


async def _require_trace(
    request: web.Request, caller: Caller, trace_id: UUID | None, agent_id: UUID, organization_id: UUID
) -> None:
    """The trace is the agent's, and the caller's to write to; another organization's is refused to all."""
    if trace_id is None:
        return
    owner = (await request.app[STORAGE].traces.owners({trace_id})).get(trace_id)
    if owner is None:
        raise Invalid({"trace": [unknown_id(trace_id)]})
    caller.require_trace(trace_id, owner.organization_id)
    if owner.organization_id != organization_id:
        raise PermissionDenied
    if owner.agent_id != agent_id:
        raise Invalid({"trace": [OTHER_AGENT]})


async def _record(
    request: web.Request, agent_id: UUID, agent: RetainedAgent, body: dict[str, Any]
) -> UsageRecord:
    """With the cost that was told, else that of the price list, else none."""
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


ROUTES = (
    for_callers(
        "GET",
        "/api/cloud/agents/{id}/usage/",
        get_usage,
        "What an agent used and what it cost",
        answer=UsageResponse,
        query=QUERY,
    ),
    for_callers(
        "POST",
        "/api/cloud/agents/{id}/usage/",
        report_usage,
        "Report a model call",
        status=201,
        answer=UsageRecordResponse,
        body=NEW,
        run_access=RunAccess.WINDING_UP,
        idempotent=True,
    ),
)
