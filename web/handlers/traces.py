"""Traces: the records of runs, in this service or elsewhere."""

from datetime import UTC
from functools import partial
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.errors import NotUnique
from storage.history.trace_model import Trace
from storage.history.traces import TraceFilters, Traces
from storage.ids import new_id
from storage.postgres.paging import Chunk, Cursor, Page
from web.access.auth import Caller, RunAccess
from web.access.body_references import load_named
from web.access.path_access import load, load_of_agent, require_agent, require_owned
from web.app_keys import CLOCK, ROOM, STORAGE
from web.errors import Invalid, require_found
from web.fields import unknown_id
from web.idempotency import read_body_once, receipt_of
from web.json import MAX_ANSWER_BYTES, fit, json_response, to_json
from web.page_reader import Listing, PageReader
from web.paging import next_link, period, send_page
from web.request.local_times import localize
from web.request.parsing import read_body, read_query
from web.routes import Routes
from web.schemas.spans import SpanResponse, serialize_span
from web.schemas.traces import (
    FullTraceResponse,
    NewTraceBody,
    PaginationResponse,
    SpanPageQuery,
    TraceEndBody,
    TracePageResponse,
    TraceQuery,
    TraceResponse,
    serialize_expanded_span,
    serialize_full_trace,
    serialize_trace,
    serialize_trace_summary,
)
from web.trace_endings import ending_of

routes = Routes()

NEW = NewTraceBody()
END = TraceEndBody()
QUERY = TraceQuery()
SPAN_PAGE = SpanPageQuery()

MIN_SPANS_BYTES = 262_144  # of a page, beside however much metadata the trace itself has
ID_TAKEN = "trace with this id already exists."
OTHER_AGENT = "This is not the agent of the trace."


@routes.create("/api/tracing/traces/", answer=TraceResponse, body=NEW)
async def create_trace(request: web.Request, caller: Caller) -> web.Response:
    """Create a trace for work outside the service. Each run of the service already has a trace.

    An id that is taken is refused with 400.
    """
    body = await read_body_once(request, caller, NEW)
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
    answer = json_response(serialize_trace(trace), status=201)
    try:
        await request.app[STORAGE].traces.insert(trace, receipt_of(request, answer))
    except NotUnique as error:
        raise Invalid({"id": [ID_TAKEN]}) from error
    return answer


@routes.get(
    "/api/tracing/traces/{id}/", answer=FullTraceResponse, query=SPAN_PAGE, run_access=RunAccess.RUNNING
)
async def get_trace(request: web.Request, caller: Caller) -> web.Response:
    """Read a trace with one page of its spans. A `Link` header names the next page, if there is one."""
    traces = request.app[STORAGE].traces
    trace = await load_of_agent(request, caller, traces.get)
    query = read_query(request, SPAN_PAGE)
    after = query["after"] and await traces.get_span_cursor(trace.id, query["after"])
    if query["after"] and after is None:
        raise Invalid({"after": [unknown_id(query["after"])]})
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
    return json_response(serialize_full_trace(trace, shown, total), headers=headers)


async def _read_spans(
    traces: Traces, trace_id: UUID, after: Cursor | None, limit: int
) -> Chunk[SpanResponse]:
    spans = await traces.list_spans(trace_id, after, limit + 1)
    return Chunk([serialize_span(span) for span in spans[:limit]], is_cut=len(spans) > limit)


async def _read_expanded_spans(
    traces: Traces, trace: Trace, after: Cursor | None, limit: int, max_bytes: int
) -> Chunk[SpanResponse]:
    spans = await traces.list_expanded_spans(trace, after, limit, max_bytes)
    return Chunk([serialize_expanded_span(span) for span in spans], is_cut=spans.is_cut)


@routes.post("/api/tracing/traces/{id}/end/", answer=TraceResponse, body=END, run_access=RunAccess.FINISHING)
async def end_trace(request: web.Request, caller: Caller) -> web.Response:
    """End a trace; a repetition is harmless.

    The service itself ends the trace of a current run, with the run.
    """
    traces, now = request.app[STORAGE].traces, request.app[CLOCK].now()
    trace = await load(request, traces.get)
    caller.require_trace(trace.id, trace.organization_id)
    body = await read_body(request, END)
    if body.get("agent_id", trace.agent_id) != trace.agent_id:
        raise Invalid({"agent": [OTHER_AGENT]})
    agent = await request.app[STORAGE].agents.get_retained(trace.agent_id)
    zone = ZoneInfo(agent.timezone) if agent else UTC
    ended = require_found(await traces.end(trace.id, ending_of(body, trace.started_at, zone, now)))
    return json_response(serialize_trace(ended))


@routes.get("/api/tracing/traces/", answer=TracePageResponse, query=QUERY, run_access=RunAccess.RUNNING)
async def list_traces(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List traces, last started first, 50 of them unless `limit` says otherwise.

    A run lists those of its agent.
    """
    return await _answer_page(request, caller, b"{", b"}")


@routes.get(
    "/api/tracing/traces/list/", answer=list[TracePageResponse], query=QUERY, run_access=RunAccess.RUNNING
)
async def list_traces_in_array(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List traces as an array that contains one page; otherwise like the list of traces."""
    return await _answer_page(request, caller, b"[{", b"}]")


async def _answer_page(
    request: web.Request, caller: Caller, opening: bytes, closing: bytes
) -> web.StreamResponse:
    """Answer with a TracePageResponse."""
    query = read_query(request, QUERY)
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
