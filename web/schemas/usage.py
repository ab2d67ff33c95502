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
from web.serializers import Serializer

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


def serialize_usage(
    agent_id: UUID, agent_name: str, start: datetime, end: datetime, sums: UsageSums
) -> UsageResponse:
    return {
        "agent_id": agent_id,
        "agent_name": agent_name,
        "start_date": start,
        "end_date": end,
        **serialize_sums(sums.total),
        "model_count": sums.model_count,
        "model_breakdown": {model.model: serialize_sums(model) for model in sums.models},
    }


serialize_sums = Serializer(ModelUsageResponse, ModelUsage, total_cost_usd="cost_usd", llm_calls="calls")
