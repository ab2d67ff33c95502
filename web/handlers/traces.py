"""Traces: the record of each run."""

from datetime import UTC

from aiohttp import web

from storage.traces import TraceFilters
from web.auth import Caller
from web.errors import NotFound
from web.json import json_response
from web.keys import STORAGE
from web.local_times import place
from web.parsing import read_query
from web.reach import require_agent, require_template
from web.routes import for_callers, path_id
from web.schemas.traces import FullTraceShown, TracePage, TraceQuery, show_trace, show_trace_summary

QUERY = TraceQuery()


async def get_trace(request: web.Request, caller: Caller) -> web.Response:
    traces = request.app[STORAGE].traces
    trace = await traces.get(path_id(request))
    if trace is None:
        raise NotFound
    caller.require(trace.organization_id)
    return json_response(show_trace(trace, await traces.spans(trace.id)))


async def list_traces(request: web.Request, caller: Caller) -> web.Response:
    return json_response(await _page(request, caller))


async def list_traces_in_array(request: web.Request, caller: Caller) -> web.Response:
    """The same page in the shape of the interface: an array that holds it."""
    return json_response([await _page(request, caller)])


async def _page(request: web.Request, caller: Caller) -> TracePage:
    query = read_query(request, QUERY)
    place(query, ("started_after", "started_before"), UTC)
    await require_agent(request, caller, query["agent"])
    await require_template(request, caller, query["template"])
    filters = TraceFilters(
        agent_id=query["agent"],
        template_id=query["template"],
        has_error=query["has_error"],
        started_after=query["started_after"],
        started_before=query["started_before"],
    )
    limit, offset = query["limit"], query["offset"]
    summaries, total = await request.app[STORAGE].traces.page(caller.organizations, filters, limit, offset)
    return {
        "results": [show_trace_summary(summary) for summary in summaries],
        "pagination": {
            "total_count": total,
            "limit": limit,
            "offset": offset,
            "has_more": offset + len(summaries) < total,
        },
    }


ROUTES = (
    for_callers("GET", "/api/tracing/traces/", list_traces, "List traces", answer=TracePage, query=QUERY),
    for_callers(
        "GET",
        "/api/tracing/traces/list/",
        list_traces_in_array,
        "List traces, the page inside an array",
        answer=list[TracePage],
        query=QUERY,
    ),
    for_callers(
        "GET", "/api/tracing/traces/{id}/", get_trace, "Read a trace with its spans", answer=FullTraceShown
    ),
)
