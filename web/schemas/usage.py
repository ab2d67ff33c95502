"""Usage: the request body of a reported model call, the query of a period, and responses."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

from marshmallow import ValidationError

from storage.history.usage import ModelUsage, UsageRecord, UsageSums
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
    """The sums over the calls of an agent, in total and by model: the 500 most expensive of `model_count`."""

    agent_id: UUID
    agent_name: str
    start_date: datetime
    end_date: datetime
    model_count: int
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
    agent_id: UUID, agent_name: str, start: datetime, end: datetime, sums: UsageSums
) -> UsageResponse:
    return {
        "agent_id": agent_id,
        "agent_name": agent_name,
        "start_date": start,
        "end_date": end,
        **_serialize_sums(sums.total),
        "model_count": sums.model_count,
        "model_breakdown": {model.model: _serialize_sums(model) for model in sums.models},
    }


def _serialize_sums(sums: ModelUsage) -> ModelUsageResponse:
    return {
        "input_tokens": sums.input_tokens,
        "output_tokens": sums.output_tokens,
        "cached_tokens": sums.cached_tokens,
        "total_cost_usd": sums.cost_usd,
        "llm_calls": sums.calls,
    }
