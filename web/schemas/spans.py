"""Spans: request bodies and responses. Only the response about a single span contains its metadata."""

from datetime import datetime, timedelta
from typing import Any, TypedDict
from uuid import UUID

from storage.history.traces import SpanSummary, SpanWithMetadata
from storage.model import Span
from web.fields import MAX_SIDE_TEXT, Datetime, JsonValue, Line, Text, Uuid
from web.request.parsing import Body

MILLISECOND = timedelta(milliseconds=1)
DATETIME_FIELDS = ("started_at", "ended_at")


class NewSpanBody(Body):
    """A step of a trace. Its parent may come later than itself, so it need not be known yet."""

    id = Uuid()
    trace_id = Uuid(data_key="trace", required=True)
    parent_id = Uuid(data_key="parent", allow_none=True, load_default=None)
    name = Line(required=True, blank=False, max_length=255)
    span_type = Line(blank=False, max_length=64, load_default="other")
    started_at = Datetime(allow_none=True, load_default=None)
    ended_at = Datetime(allow_none=True, load_default=None)
    error = Text(load_default="", max_length=MAX_SIDE_TEXT)
    metadata = JsonValue(allow_none=True, load_default=dict)


class SpanEndBody(Body):
    """How a span ended, by default now. A repetition keeps the first `ended_at` and replaces the rest."""

    ended_at = Datetime(allow_none=True)
    error = Text(max_length=MAX_SIDE_TEXT)
    metadata = JsonValue(allow_none=True)


class SpanResponse(TypedDict):
    id: UUID
    trace: UUID
    name: str
    started_at: datetime
    duration_ms: int | None
    has_error: bool
    parent: UUID | None
    span_type: str
    ended_at: datetime | None


class FullSpanResponse(SpanResponse):
    error: str
    metadata: Any


def serialize_span(span: Span | SpanSummary) -> SpanResponse:
    return {
        "id": span.id,
        "trace": span.trace_id,
        "name": span.name,
        "started_at": span.started_at,
        "duration_ms": duration_ms(span.started_at, span.ended_at),
        "has_error": span.has_error,
        "parent": span.parent_id,
        "span_type": span.span_type,
        "ended_at": span.ended_at,
    }


def serialize_full_span(full: SpanWithMetadata) -> FullSpanResponse:
    return {**serialize_span(full.span), "error": full.span.error, "metadata": full.metadata}


def duration_ms(started_at: datetime, ended_at: datetime | None) -> int | None:
    """Return the duration in whole milliseconds, or None while there is no end."""
    return None if ended_at is None else (ended_at - started_at) // MILLISECOND
