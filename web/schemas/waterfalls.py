"""Waterfalls: the query and the response."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.history.trace_model import Trace
from storage.history.waterfalls import MAX_SPANS, SpanColumns
from web.fields import Integer, Uuid
from web.request.parsing import Body


class WaterfallQuery(Body):
    """Which spans: `limit` of them, from the one after the span `after`."""

    limit = Integer(min_value=1, max_value=MAX_SPANS, load_default=MAX_SPANS)
    """The maximum number of spans; a `Link` header leads to the next page while there is one."""
    after = Uuid(load_default=None)
    """The id of the last span of the previous page: the spans that follow it are returned."""


class SpanColumnsResponse(TypedDict):
    """Spans in columns: what stands at the same place of each list belongs to one span."""

    ids: list[UUID]
    """The ids of the spans."""
    parents: list[UUID | None]
    """The spans of the same trace that these are parts of; null if one is a part of none."""
    names: list[str]
    """What was done, such as `chat gpt-5`."""
    span_types: list[str]
    """`agent`, `llm`, `tool`, `retrieval`, `embedding`, `other` or any other text."""
    starts_us: list[int]
    """Microseconds from `started_at` to the starts of the spans; negative for earlier ones."""
    durations_us: list[int | None]
    """Microseconds from the starts to the ends; null while a span is open."""
    has_errors: list[bool]
    """Whether the spans have errors."""
    input_tokens: list[int | None]
    """The tokens that models read; null if a span does not tell."""
    output_tokens: list[int | None]
    """The tokens that models wrote; null if a span does not tell."""
    cached_tokens: list[int | None]
    """The input tokens that models read from a cache; null if a span does not tell."""
    costs_usd: list[float | None]
    """What the model calls cost; null if a span does not tell."""


class WaterfallResponse(TypedDict):
    """A page of the spans of a trace in short."""

    started_at: datetime
    """When the trace started."""
    ended_at: datetime | None
    """When the trace ended; null while it is open."""
    total_spans: int
    """The number of all spans of the trace."""
    spans: SpanColumnsResponse
    """Spans, oldest first."""


def serialize_waterfall(trace: Trace, total: int, columns: SpanColumns) -> WaterfallResponse:
    return {
        "started_at": trace.started_at,
        "ended_at": trace.ended_at,
        "total_spans": total,
        "spans": {
            "ids": columns.ids,
            "parents": columns.parents,
            "names": columns.names,
            "span_types": columns.span_types,
            "starts_us": columns.starts_us,
            "durations_us": columns.durations_us,
            "has_errors": columns.has_errors,
            "input_tokens": columns.input_tokens,
            "output_tokens": columns.output_tokens,
            "cached_tokens": columns.cached_tokens,
            "costs_usd": columns.costs_usd,
        },
    }
