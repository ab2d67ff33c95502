"""Traces: request bodies, queries and responses."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from storage.history.traces import ExpandedSpan, TraceSummary
from storage.model import Trace
from web.fields import (
    MAX_OFFSET,
    MAX_SIDE_TEXT,
    Boolean,
    Choice,
    Datetime,
    Integer,
    JsonValue,
    Line,
    Text,
    UtcDatetime,
    Uuid,
)
from web.request.parsing import Body
from web.schemas.spans import SpanResponse, duration_ms, serialize_span

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_SPANS = 1000


class SpanExpansion(StrEnum):
    """What the spans on the page of a trace are shown with."""

    METADATA = "metadata"


class NewTraceBody(Body):
    """A trace of something that the service does not run itself; the client may choose its id."""

    id = Uuid()
    agent_id = Uuid(data_key="agent", required=True)
    name = Line(required=True, blank=False, max_length=255)
    started_at = Datetime(allow_none=True, load_default=None)
    metadata = JsonValue(allow_none=True, load_default=dict)


class TraceEndBody(Body):
    """How a trace ended, by default now. A repetition keeps the first `ended_at` and replaces the rest."""

    agent_id = Uuid(data_key="agent")
    name = Line(blank=False, max_length=255)
    ended_at = Datetime(allow_none=True)
    error = Text(max_length=MAX_SIDE_TEXT)
    metadata = JsonValue(allow_none=True)


class TraceQuery(Body):
    limit = Integer(min_value=1, max_value=MAX_LIMIT, load_default=DEFAULT_LIMIT)
    offset = Integer(min_value=0, max_value=MAX_OFFSET, load_default=0)
    agent = Uuid(load_default=None)
    template = Uuid(load_default=None)
    has_error = Boolean(load_default=None)
    started_after = UtcDatetime(load_default=None)
    """Only traces started at this time or later. Without an offset it is UTC."""
    started_before = UtcDatetime(load_default=None)
    """Only traces started before this time. Without an offset it is UTC."""


class SpanPageQuery(Body):
    """Which spans of a trace: `limit` of them, from the one after the span `after`."""

    limit = Integer(min_value=1, max_value=MAX_SPANS, load_default=MAX_SPANS)
    after = Uuid(load_default=None)
    expand = Choice(SpanExpansion, load_default=None)
    """`metadata` adds the metadata of each span. A page then ends after about 1 MiB."""


class TraceResponse(TypedDict):
    """A trace without its spans."""

    id: UUID
    name: str
    agent: UUID
    started_at: datetime
    ended_at: datetime | None
    error: str
    metadata: Any


class SpanOfTraceResponse(SpanResponse):
    """A span on the page of its trace."""

    metadata: NotRequired[Any]
    """Any JSON value; only with `expand=metadata`."""


class FullTraceResponse(TraceResponse):
    """With one page of its spans, oldest first, and the number of all of them."""

    spans: list[SpanOfTraceResponse]
    total_spans: int


class TraceSummaryResponse(TypedDict):
    id: UUID
    name: str
    agent_name: str
    template_name: str
    started_at: datetime
    duration_ms: int | None
    span_count: int
    has_error: bool
    agent: UUID
    ended_at: datetime | None
    error: str
    metadata: Any


class PaginationResponse(TypedDict):
    total_count: int
    limit: int
    offset: int
    has_more: bool


class TracePageResponse(TypedDict):
    results: list[TraceSummaryResponse]
    pagination: PaginationResponse


def serialize_trace(trace: Trace) -> TraceResponse:
    return {
        "id": trace.id,
        "name": trace.name,
        "agent": trace.agent_id,
        "started_at": trace.started_at,
        "ended_at": trace.ended_at,
        "error": trace.error,
        "metadata": trace.metadata,
    }


def serialize_expanded_span(span: ExpandedSpan) -> SpanOfTraceResponse:
    return {**serialize_span(span.span), "metadata": span.metadata}


def serialize_full_trace(trace: Trace, spans: list[Any], total: int) -> FullTraceResponse:
    """Return the response for a trace with these spans, which are responses or finished JSON."""
    return {**serialize_trace(trace), "spans": spans, "total_spans": total}


def serialize_trace_summary(summary: TraceSummary) -> TraceSummaryResponse:
    trace = summary.trace
    return {
        "id": trace.id,
        "name": trace.name,
        "agent_name": summary.agent_name,
        "template_name": summary.template_name,
        "started_at": trace.started_at,
        "duration_ms": duration_ms(trace.started_at, trace.ended_at),
        "span_count": summary.span_count,
        "has_error": summary.has_error,
        "agent": trace.agent_id,
        "ended_at": trace.ended_at,
        "error": trace.error,
        "metadata": trace.metadata,
    }
