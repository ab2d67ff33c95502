"""Daily usage: the query of a period and whose usage it is, and the response by day and model."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TypedDict
from uuid import UUID

from storage.history.daily_usage import AgentCost, DailyUsage, UsageScope
from storage.history.usage import ModelUsage
from web.fields import Integer, Uuid
from web.schemas.usage import ModelUsageResponse, UsageQuery, serialize_sums

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


class Caps(TypedDict):
    """The caps on spending in a day, as far as they hold for all calls of the answer."""

    agent_max_cost_usd_per_day: Decimal | None
    organization_max_cost_usd_per_day: Decimal | None


def serialize_daily_usage(
    scope: UsageScope, usage: DailyUsage, agents: Sequence[AgentCost], caps: Caps
) -> DailyUsageResponse:
    positions: list[int | None] = [*range(len(usage.models))]
    if usage.model_count > len(usage.models):
        positions.append(None)
    return {
        "start_date": scope.start,
        "end_date": scope.end,
        "total": serialize_sums(_add([sums for day in usage.days for sums in day.by_model.values()])),
        "model_count": usage.model_count,
        "models": [_serialize_model(usage, position) for position in positions],
        "days": [
            {
                "day": day.day.isoformat(),
                "by_model": [
                    None if sums is None else serialize_sums(sums)
                    for sums in map(day.by_model.get, positions)
                ],
            }
            for day in usage.days
        ],
        "top_agents": [
            {
                "agent": agent.agent_id,
                "name": agent.name,
                "total_cost_usd": agent.cost_usd,
                "llm_calls": agent.calls,
            }
            for agent in agents
        ],
        **caps,
    }


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
