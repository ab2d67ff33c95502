"""Traces and the summaries of their spans."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict
from uuid import UUID

from storage.model import Span, Trace, TraceSummary
from web.fields import MOST_OFFSET, Boolean, Datetime, Integer, Uuid
from web.parsing import Body

DEFAULT_LIMIT = 50
MOST = 200
MILLISECOND = timedelta(milliseconds=1)


class TraceQuery(Body):
    limit = Integer(least=1, most=MOST, load_default=DEFAULT_LIMIT)
    offset = Integer(least=0, most=MOST_OFFSET, load_default=0)
    agent = Uuid(load_default=None)
    template = Uuid(load_default=None)
    has_error = Boolean(load_default=None)
    started_after = Datetime(load_default=None)
    started_before = Datetime(load_default=None)


class SpanShown(TypedDict):
    id: UUID
    trace: UUID
    name: str
    started_at: datetime
    duration_ms: int | None
    has_error: bool
    parent: UUID | None
    span_type: str
    ended_at: datetime | None


class TraceShown(TypedDict):
    """A trace without its spans."""

    id: UUID
    name: str
    agent: UUID
    started_at: datetime
    ended_at: datetime | None
    error: str
    metadata: Any


class FullTraceShown(TraceShown):
    spans: list[SpanShown]
    total_spans: int


class TraceSummaryShown(TypedDict):
    id: UUID
    name: str
    agent_name: str
    template_name: str | None
    started_at: datetime
    duration_ms: int | None
    span_count: int
    has_error: bool
    agent: UUID
    ended_at: datetime | None
    error: str
    metadata: Any


class Pagination(TypedDict):
    total_count: int
    limit: int
    offset: int
    has_more: bool


class TracePage(TypedDict):
    results: list[TraceSummaryShown]
    pagination: Pagination


def show_trace(trace: Trace, spans: Sequence[Span]) -> FullTraceShown:
    return {
        "id": trace.id,
        "name": trace.name,
        "agent": trace.agent_id,
        "started_at": trace.started_at,
        "ended_at": trace.ended_at,
        "error": trace.error,
        "metadata": trace.metadata,
        "spans": [_show_span(span) for span in spans],
        "total_spans": len(spans),
    }


def _show_span(span: Span) -> SpanShown:
    return {
        "id": span.id,
        "trace": span.trace_id,
        "name": span.name,
        "started_at": span.started_at,
        "duration_ms": _duration_ms(span.started_at, span.ended_at),
        "has_error": bool(span.error),
        "parent": span.parent_id,
        "span_type": span.span_type,
        "ended_at": span.ended_at,
    }


def show_trace_summary(summary: TraceSummary) -> TraceSummaryShown:
    trace = summary.trace
    return {
        "id": trace.id,
        "name": trace.name,
        "agent_name": summary.agent_name,
        "template_name": summary.template_name,
        "started_at": trace.started_at,
        "duration_ms": _duration_ms(trace.started_at, trace.ended_at),
        "span_count": summary.span_count,
        "has_error": summary.has_error,
        "agent": trace.agent_id,
        "ended_at": trace.ended_at,
        "error": trace.error,
        "metadata": trace.metadata,
    }


def _duration_ms(started_at: datetime, ended_at: datetime | None) -> int | None:
    """Null while it is open."""
    return None if ended_at is None else (ended_at - started_at) // MILLISECOND
