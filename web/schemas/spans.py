"""Spans: request bodies and responses. Only the response about a single span contains its metadata."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from storage.history.trace_model import Span, SpanSummary
from storage.history.traces import SpanWithMetadata
from web.fields import MAX_SIDE_TEXT, Datetime, JsonValue, Line, Text, Uuid
from web.request.parsing import Body
from web.serializers import Serializer

DATETIME_FIELDS = ("started_at", "ended_at")


class NewSpanBody(Body):
    """A step of a trace. Its parent may come later than itself, so it need not be known yet."""

    id = Uuid()
    """An id of yours that no span has; left out: chosen by the service."""
    trace_id = Uuid(data_key="trace", required=True)
    parent_id = Uuid(data_key="parent", allow_none=True, load_default=None)
    name = Line(required=True, blank=False, max_length=255)
    span_type = Line(blank=False, max_length=64, load_default="other")
    started_at = Datetime(allow_none=True, load_default=None)
    """When it started; null or left out: now, or `ended_at` if that is earlier."""
    ended_at = Datetime(allow_none=True, load_default=None)
    """When it ended, not before its start; null or left out: it is open."""
    error = Text(load_default="", max_length=MAX_SIDE_TEXT)
    """Why it failed; "" if it did not."""
    metadata = JsonValue(allow_none=True, load_default=dict)
    """Any JSON value, at most `limits.span_metadata_bytes` (1 MiB) as JSON."""


class SpanEndBody(Body):
    """How a span ended. A repetition keeps the first `ended_at` and replaces the rest."""

    ended_at = Datetime(allow_none=True)
    """When it ended, not before its start; null or left out: now."""
    error = Text(max_length=MAX_SIDE_TEXT)
    """Why it failed; left out: the error stays."""
    metadata = JsonValue(allow_none=True)
    """Any JSON value, which replaces the earlier one; left out: it stays."""


class SpanResponse(TypedDict):
    """A step of a trace, such as a call of a model or a tool."""

    id: UUID
    """Chosen by its creator or the service."""
    trace: UUID
    """The trace that the span belongs to."""
    name: str
    """What was done, such as `chat gpt-5` or `execute_tool sleep`."""
    started_at: datetime
    """When it started."""
    duration_ms: int | None
    """Milliseconds from start to end; null while it is open."""
    has_error: bool
    """Whether it has an error."""
    parent: UUID | None
    """The span of the same trace that this one is a part of; null if it is a part of none."""
    span_type: str
    """`agent`, `llm`, `tool`, `retrieval`, `embedding`, `other` or any other text."""
    ended_at: datetime | None
    """When it ended; null while it is open."""
    input_tokens: int | None
    """The tokens that the model read, `gen_ai.usage.input_tokens` of its metadata; null if that does
    not tell."""
    output_tokens: int | None
    """The tokens that the model wrote, `gen_ai.usage.output_tokens`; null if it does not tell."""
    cached_tokens: int | None
    """The input tokens that the model read from a cache, `gen_ai.usage.cache_read.input_tokens`; null if it
    does not tell."""
    cost_usd: float | None
    """What the model call cost, `hostsvc.usage.cost_usd`; null if it does not tell, or no price is known."""


class FullSpanResponse(SpanResponse):
    """A span with its error and metadata."""

    error: str
    """Why it failed; "" if it did not."""
    metadata: Any
    """Any JSON value, at most `limits.span_metadata_bytes` (1 MiB) as JSON; in spans of the service
    attributes by the names of OpenTelemetry."""


serialize_span: Serializer[Span | SpanSummary, SpanResponse] = Serializer(SpanResponse, SpanSummary)


def serialize_full_span(full: SpanWithMetadata) -> FullSpanResponse:
    return {**serialize_span(full.span), "error": full.span.error, "metadata": full.metadata}
