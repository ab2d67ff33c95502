"""Usage: the request body of a reported model call, the query of a period, and responses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

from marshmallow import ValidationError

from storage.history.usage import ModelUsage, UsageRecord
from web.fields import MAX_INT32, Datetime, DayOrDatetime, Integer, Line, Money, Uuid
from web.request.parsing import Body

DATETIME_FIELDS = ("start_date", "end_date")


class NewUsageBody(Body):
    """One call of a model; without `cost_usd` it is priced by the bundled price list."""

    model = Line(required=True, blank=False, max_length=255)
    input_tokens = Integer(required=True, min_value=0, max_value=MAX_INT32)
    output_tokens = Integer(required=True, min_value=0, max_value=MAX_INT32)
    cached_tokens = Integer(min_value=0, max_value=MAX_INT32, load_default=0)
    cost_usd = Money(allow_none=True, load_default=None)
    trace_id = Uuid(data_key="trace", allow_none=True, load_default=None)
    occurred_at = Datetime(allow_none=True, load_default=None)

    def check_together(self, checked: Mapping[str, Any]) -> None:
        """Raise ValidationError if there are more cached than input tokens: they are part of the input."""
        if checked["cached_tokens"] > checked["input_tokens"]:
            message = f"Ensure this value is less than or equal to {checked['input_tokens']}."
            raise ValidationError({"cached_tokens": [message]})


class UsageQuery(Body):
    """The period from `start_date` to before `end_date`, by default the last 30 days."""

    start_date = DayOrDatetime(load_default=None)
    end_date = DayOrDatetime(load_default=None)


class UsageRecordResponse(TypedDict):
    """One call of a model. Unless it is `priced`, its cost is unknown and counts as 0."""

    id: UUID
    agent: UUID
    trace: UUID | None
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: Decimal
    priced: bool
    occurred_at: datetime


class ModelUsageResponse(TypedDict):
    """The sums over the calls of one model. Cached tokens are part of the input tokens."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    total_cost_usd: Decimal
    llm_calls: int


class UsageResponse(ModelUsageResponse):
    """The sums over the calls of an agent, in total and by model."""

    agent_id: UUID
    agent_name: str
    start_date: datetime
    end_date: datetime
    model_breakdown: Mapping[str, ModelUsageResponse]


def serialize_usage_record(record: UsageRecord) -> UsageRecordResponse:
    return {
        "id": record.id,
        "agent": record.agent_id,
        "trace": record.trace_id,
        "model": record.model,
        "input_tokens": record.input_tokens,
        "output_tokens": record.output_tokens,
        "cached_tokens": record.cached_tokens,
        "cost_usd": record.cost_usd,
        "priced": record.priced,
        "occurred_at": record.occurred_at,
    }


def serialize_usage(
    agent_id: UUID, agent_name: str, start: datetime, end: datetime, models: Sequence[ModelUsage]
) -> UsageResponse:
    return {
        "agent_id": agent_id,
        "agent_name": agent_name,
        "start_date": start,
        "end_date": end,
        **_sum_usage(models),
        "model_breakdown": {model.model: _sum_usage([model]) for model in models},
    }


def _sum_usage(models: Sequence[ModelUsage]) -> ModelUsageResponse:
    return {
        "input_tokens": sum(model.input_tokens for model in models),
        "output_tokens": sum(model.output_tokens for model in models),
        "cached_tokens": sum(model.cached_tokens for model in models),
        "total_cost_usd": sum((model.cost_usd for model in models), Decimal(0)),
        "llm_calls": sum(model.calls for model in models),
    }
