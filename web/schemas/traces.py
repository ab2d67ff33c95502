"""Traces and the summaries of their spans."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

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


def show_trace(trace: Trace, spans: Sequence[Span]) -> dict[str, Any]:
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


def _show_span(span: Span) -> dict[str, Any]:
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


def show_trace_summary(summary: TraceSummary) -> dict[str, Any]:
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
