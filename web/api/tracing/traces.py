"""Traces: the records of runs, in this service or elsewhere, with their spans in pages or as columns."""

from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.errors import NotUnique
from storage.history.trace_model import Trace
from storage.history.traces import MAX_SPANS as MAX_WATERFALL_SPANS
from storage.history.traces import ExpandedSpan, SpanColumns, TraceFilters, Traces, TraceSummary
from storage.ids import new_id
from storage.postgres.paging import Chunk, Cursor, Page
from web.access.auth import Caller, RunAccess
from web.access.path_access import load, load_of_agent, require_agent, require_owned
from web.access.references import load_named
from web.api.tracing.spans import SpanEndBody, SpanResponse, ending_of, serialize_span, span_cursor
from web.app_keys import CLOCK, ROOM, STORAGE
from web.errors import Invalid, require_found
from web.fields import (
    MAX_OFFSET,
    Boolean,
    Choice,
    Datetime,
    Integer,
    JsonValue,
    Line,
    UtcDatetime,
    Uuid,
)
from web.idempotency import read_body_once, receipt_of
from web.json import MAX_ANSWER_BYTES, Serializer, fit, json_response, to_json
from web.paging import Listing, PageReader, next_link, period, send_page
from web.request.parsing import Body, localize, read_body, read_query
from web.routes import Routes

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


class TraceEndBody(SpanEndBody):
    """How a trace ended. A repetition keeps the first `ended_at` and replaces the rest."""

    agent_id = Uuid(data_key="agent")
    """The agent of the trace; another one is refused with 400. It may be left out."""
    name = Line(blank=False, max_length=255)
    """A new name; left out: the name stays."""


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


class WaterfallQuery(Body):
    """Which spans: `limit` of them, from the one after the span `after`."""

    limit = Integer(min_value=1, max_value=MAX_WATERFALL_SPANS, load_default=MAX_WATERFALL_SPANS)
    """The maximum number of spans; a `Link` header leads to the next page while there is one."""
    after = Uuid(load_default=None)
    """The id of the last span of the previous page: the spans that follow it are returned."""


class SpanPageQuery(WaterfallQuery):
    """The same, with fewer spans at most because they are shown whole."""

    limit = Integer(min_value=1, max_value=MAX_SPANS, load_default=MAX_SPANS)
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


serialize_trace_summary = Serializer(TraceSummaryResponse, TraceSummary)


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


serialize_columns = Serializer(SpanColumnsResponse, SpanColumns)


routes = Routes()

MIN_SPANS_BYTES = 262_144  # of a page, beside however much metadata the trace itself has
ID_TAKEN = "trace with this id already exists."
OTHER_AGENT = "This is not the agent of the trace."


@routes.create("/api/tracing/traces/", body=NewTraceBody)
async def create_trace(request: web.Request, caller: Caller) -> TraceResponse:
    """Create a trace for work outside the service. Each run of the service already has a trace.

    An id that is taken is refused with 400.
    """
    body = await read_body_once(request, caller)
    agent = await load_named(caller, request.app[STORAGE].agents.get, "agent", body["agent_id"])
    localize(body, ("started_at",), ZoneInfo(agent.timezone))
    trace = Trace(
        id=body.get("id") or new_id(),
        organization_id=agent.organization_id,
        agent_id=agent.id,
        name=body["name"],
        started_at=body["started_at"] or request.app[CLOCK].now(),
        ended_at=None,
        error="",
        metadata=body["metadata"],
    )
    answer = serialize_trace(trace)
    try:
        await request.app[STORAGE].traces.insert(trace, receipt_of(request, answer))
    except NotUnique as error:
        raise Invalid({"id": [ID_TAKEN]}) from error
    return answer


@routes.get(
    "/api/tracing/traces/{id}/", answer=FullTraceResponse, query=SpanPageQuery, run_access=RunAccess.RUNNING
)
async def get_trace(request: web.Request, caller: Caller) -> web.Response:
    """Read a trace with one page of its spans. A `Link` header names the next page, if there is one."""
    traces = request.app[STORAGE].traces
    trace = await load_of_agent(request, caller, traces.get)
    query = read_query(request)
    after = await span_cursor(traces, trace.id, query["after"])
    total = await traces.count_spans(trace.id)
    room = max(MAX_ANSWER_BYTES - len(to_json(serialize_trace(trace))), MIN_SPANS_BYTES)
    if query["expand"] is None:
        spans = await _read_spans(traces, trace.id, after, query["limit"])
    else:
        async with request.app[ROOM].reading(caller.accountable):  # it reads up to two megabytes
            spans = await _read_expanded_spans(traces, trace, after, query["limit"], room)
    shown = fit(spans, room)
    is_last = len(shown) == len(spans) and not spans.is_cut
    headers = {} if is_last else next_link(request, spans[len(shown) - 1]["id"], query["limit"])
    answer = {**serialize_trace(trace), "spans": shown, "total_spans": total}
    return json_response(answer, headers=headers)


async def _read_spans(
    traces: Traces, trace_id: UUID, after: Cursor | None, limit: int
) -> Chunk[SpanResponse]:
    spans = await traces.list_spans(trace_id, after, limit + 1)
    return Chunk([serialize_span(span) for span in spans[:limit]], is_cut=len(spans) > limit)


async def _read_expanded_spans(
    traces: Traces, trace: Trace, after: Cursor | None, limit: int, max_bytes: int
) -> Chunk[SpanResponse]:
    spans = await traces.list_expanded_spans([trace], after, limit, max_bytes)
    return Chunk([serialize_expanded_span(span) for span in spans], is_cut=spans.is_cut)


@routes.post("/api/tracing/traces/{id}/end/", body=TraceEndBody, run_access=RunAccess.FINISHING)
async def end_trace(request: web.Request, caller: Caller) -> TraceResponse:
    """End a trace; a repetition is harmless.

    The service itself ends the trace of a current run, with the run.
    """
    traces, now = request.app[STORAGE].traces, request.app[CLOCK].now()
    trace = await load(request, traces.get)
    caller.require_trace(trace.id, trace.organization_id)
    body = await read_body(request)
    if body.get("agent_id", trace.agent_id) != trace.agent_id:
        raise Invalid({"agent": [OTHER_AGENT]})
    agent = await request.app[STORAGE].agents.get_retained(trace.agent_id)
    zone = ZoneInfo(agent.timezone) if agent else UTC
    ended = require_found(await traces.end(trace.id, ending_of(body, trace.started_at, zone, now)))
    return serialize_trace(ended)


@routes.get("/api/tracing/traces/", answer=TracePageResponse, query=TraceQuery, run_access=RunAccess.RUNNING)
async def list_traces(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List traces, last started first, 50 of them unless `limit` says otherwise.

    A run lists those of its agent.
    """
    return await _answer_page(request, caller, b"{", b"}")


@routes.get(
    "/api/tracing/traces/list/",
    answer=list[TracePageResponse],
    query=TraceQuery,
    run_access=RunAccess.RUNNING,
)
async def list_traces_in_array(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List traces as an array that contains one page; otherwise like the list of traces."""
    return await _answer_page(request, caller, b"[{", b"}]")


async def _answer_page(
    request: web.Request, caller: Caller, opening: bytes, closing: bytes
) -> web.StreamResponse:
    """Answer with a TracePageResponse."""
    query = read_query(request)
    traces = request.app[STORAGE].traces
    await _require_agent(request, caller, query["agent"])
    await require_owned(caller, request.app[STORAGE].templates.get, query["template"])
    reach = caller.reach
    filters = TraceFilters(
        agent_id=query["agent"] or reach.agent_id,
        template_id=query["template"],
        has_error=query["has_error"],
        started=period(query, "started"),
    )
    fetch = partial(traces.list_page, reach.organization_ids, filters)
    listing = Listing(fetch, serialize_trace_summary, time="started_at")
    limit, offset = query["limit"], query["offset"]
    async with request.app[ROOM].reading(caller.accountable):  # it may have to look at many rows
        total = await traces.count(reach.organization_ids, filters)
    pagination: PaginationResponse = {
        "total_count": total,
        "limit": limit,
        "offset": offset,
        "has_more": offset + limit < total,
    }
    reader = PageReader(listing, Page(limit=limit, offset=offset))
    closing = b'],"pagination":' + to_json(pagination) + closing
    return await send_page(request, reader, opening + b'"results":[', closing)


async def _require_agent(request: web.Request, caller: Caller, agent_id: UUID | None) -> None:
    """Raise PermissionDenied for another organization's agent, also a deleted one; for a run as elsewhere."""
    if caller.run is not None:
        await require_agent(request, caller, agent_id)
    else:
        await require_owned(caller, request.app[STORAGE].agents.get_retained, agent_id)


@routes.get("/api/tracing/traces/{id}/waterfall/", answer=WaterfallResponse, query=WaterfallQuery)
async def get_waterfall(request: web.Request, caller: Caller) -> web.Response:
    """Read the spans of a trace in short, as columns, to draw them on a time axis.

    A page has up to 5,000 spans, fewer if they take more than about 1 MB; a `Link` header then names the next
    one.
    """
    traces = request.app[STORAGE].traces
    trace = await load_of_agent(request, caller, traces.get)
    query = read_query(request)
    after = await span_cursor(traces, trace.id, query["after"])
    async with request.app[ROOM].reading(caller.accountable):  # it reads up to a megabyte
        columns = await traces.read_columns(trace, after, query["limit"])
        total = await traces.count_spans(trace.id)
    headers = (
        next_link(request, columns.last_id, query["limit"]) if columns.last_id and columns.is_cut else {}
    )
    answer: WaterfallResponse = {
        "started_at": trace.started_at,
        "ended_at": trace.ended_at,
        "total_spans": total,
        "spans": serialize_columns(columns),
    }
    return json_response(answer, headers=headers)
