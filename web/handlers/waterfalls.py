"""Waterfalls: the spans of traces in short, many at a time."""

from aiohttp import web

from web.access.auth import Caller
from web.access.path_access import load
from web.app_keys import ROOM, STORAGE
from web.errors import Invalid
from web.fields import unknown_id
from web.json import json_response
from web.paging import next_link
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.waterfalls import WaterfallQuery, WaterfallResponse, serialize_waterfall

routes = Routes()

QUERY = WaterfallQuery()


@routes.get("/api/tracing/traces/{id}/waterfall/", answer=WaterfallResponse, query=QUERY)
async def get_waterfall(request: web.Request, caller: Caller) -> web.Response:
    """Read the spans of a trace in short, as columns, to draw them on a time axis.

    A page has up to 5,000 spans, fewer if they take more than about 1 MB; a `Link` header then names the next
    one.
    """
    traces = request.app[STORAGE].traces
    trace = await load(request, traces.get)
    caller.require_agent(trace.agent_id, trace.organization_id)
    query = read_query(request, QUERY)
    after = query["after"] and await traces.get_span_cursor(trace.id, query["after"])
    if query["after"] and after is None:
        raise Invalid({"after": [unknown_id(query["after"])]})
    async with request.app[ROOM].reading(caller.accountable):  # it reads up to a megabyte
        columns = await traces.read_columns(trace, after, query["limit"])
        total = await traces.count_spans(trace.id)
    headers = (
        next_link(request, columns.last_id, query["limit"]) if columns.last_id and columns.is_cut else {}
    )
    return json_response(serialize_waterfall(trace, total, columns), headers=headers)
