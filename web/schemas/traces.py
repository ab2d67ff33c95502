"""Traces: request bodies, queries and responses."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from storage.history.trace_model import Trace
from storage.history.traces import ExpandedSpan, TraceSummary
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
    Uuid,
)
from web.filter_fields import UtcDatetime
from web.request.parsing import Body
from web.schemas.spans import SpanResponse, serialize_span
from web.serializers import Serializer

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_SPANS = 1000


class SpanExpansion(StrEnum):
    """What the spans on the page of a trace are shown with."""

    METADATA = "metadata"


class NewTraceBody(Body):
    """A trace of something that the service does not run itself."""

    id = Uuid()
    """An id of yours that no trace has; left out: chosen by the service."""
    agent_id = Uuid(data_key="agent", required=True)
    name = Line(required=True, blank=False, max_length=255)
    started_at = Datetime(allow_none=True, load_default=None)
    """When it started; null or left out: now."""
    metadata = JsonValue(allow_none=True, load_default=dict)
    """Any JSON value of yours."""


class TraceEndBody(Body):
    """How a trace ended. A repetition keeps the first `ended_at` and replaces the rest."""

    agent_id = Uuid(data_key="agent")
    """The agent of the trace; another one is refused with 400. It may be left out."""
    name = Line(blank=False, max_length=255)
    """A new name; left out: the name stays."""
    ended_at = Datetime(allow_none=True)
    """When it ended, not before its start; null or left out: now."""
    error = Text(max_length=MAX_SIDE_TEXT)
    """Why it failed; left out: the error stays."""
    metadata = JsonValue(allow_none=True)
    """Any JSON value, which replaces the earlier one; left out: it stays."""


class TraceQuery(Body):
    limit = Integer(min_value=1, max_value=MAX_LIMIT, load_default=DEFAULT_LIMIT)
    """The maximum number of traces."""
    offset = Integer(min_value=0, max_value=MAX_OFFSET, load_default=0)
    """The number of traces to skip."""
    agent = Uuid(load_default=None)
    """Only traces of this agent, which may have been deleted."""
    template = Uuid(load_default=None)
    """Only traces of agents that have this template now."""
    has_error = Boolean(load_default=None)
    """true: only traces with an error, their own or that of a span. false: only those without."""
    started_after = UtcDatetime(load_default=None)
    """Only traces started at this time or later. Without an offset it is UTC."""
    started_before = UtcDatetime(load_default=None)
    """Only traces started before this time. Without an offset it is UTC."""


class SpanPageQuery(Body):
    """Which spans of a trace: `limit` of them, from the one after the span `after`."""

    limit = Integer(min_value=1, max_value=MAX_SPANS, load_default=MAX_SPANS)
    """The maximum number of spans; a `Link` header leads to the next page while there is one."""
    after = Uuid(load_default=None)
    """The id of the last span of the previous page: the spans that follow it are returned."""
    expand = Choice(SpanExpansion, load_default=None)
    """`metadata` adds the metadata of each span. A page then ends after about 1 MiB."""


class TraceResponse(TypedDict):
    """A trace without its spans."""

    id: UUID
    """That of the run, if the service ran it; else chosen by its creator or the service."""
    name: str
    """What was done; `invoke_agent <name>` for a run of the service."""
    agent: UUID
    """The agent that the trace is about, which may have been deleted."""
    started_at: datetime
    """When it started."""
    ended_at: datetime | None
    """When it ended; null while it is open."""
    error: str
    """Why it failed; "" if it did not."""
    metadata: Any
    """Any JSON value."""


class SpanOfTraceResponse(SpanResponse):
    """A span on the page of its trace."""

    metadata: NotRequired[Any]
    """Any JSON value; only with `expand=metadata`."""


class FullTraceResponse(TraceResponse):
    """A trace with one page of its spans."""

    spans: list[SpanOfTraceResponse]
    """Spans, oldest first, without their metadata unless `expand` asks for it."""
    total_spans: int
    """The number of all spans of the trace."""


class TraceSummaryResponse(TraceResponse):
    """A trace in a list."""

    agent_name: str
    """The name of the agent; "" if its data is deleted."""
    template_name: str
    """The name of the template that the agent has now; "" if it has none."""
    duration_ms: int | None
    """Milliseconds from start to end; null while it is open."""
    span_count: int
    """The number of its spans."""
    has_error: bool
    """Whether the trace or one of its spans has an error."""


class PaginationResponse(TypedDict):
    """Which part of all traces a page shows."""

    total_count: int
    """How many traces fit the filters."""
    limit: int
    """The `limit` of the request."""
    offset: int
    """The `offset` of the request."""
    has_more: bool
    """Whether there are more traces after this page."""


class TracePageResponse(TypedDict):
    """A page of traces."""

    results: list[TraceSummaryResponse]
    """The traces, last started first."""
    pagination: PaginationResponse
    """Which part of all traces this is."""


serialize_trace = Serializer(TraceResponse, Trace)


def serialize_expanded_span(span: ExpandedSpan) -> SpanOfTraceResponse:
    return {**serialize_span(span.span), "metadata": span.metadata}


def serialize_full_trace(trace: Trace, spans: list[Any], total: int) -> FullTraceResponse:
    """Return the response for a trace with these spans, which are responses or finished JSON."""
    return {**serialize_trace(trace), "spans": spans, "total_spans": total}


serialize_trace_summary = Serializer(TraceSummaryResponse, TraceSummary)
