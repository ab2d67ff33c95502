"""Transcripts: traces read as conversations."""

import asyncio

from aiohttp import web

from storage.history.trace_model import Trace
from storage.history.traces import ExpandedSpan
from web.access.auth import Caller, RunAccess
from web.access.path_access import load_of_agent
from web.app_keys import ROOM, STORAGE
from web.errors import Invalid
from web.fields import unknown_id
from web.json import JSON_TYPE, MAX_ANSWER_BYTES, to_json
from web.paging import next_link
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.trace_transcripts import TraceTranscriptQuery, TraceTranscriptResponse
from web.trace_transcript import transcript

routes = Routes()

QUERY = TraceTranscriptQuery()


@routes.get(
    "/api/tracing/traces/{id}/transcript/",
    answer=TraceTranscriptResponse,
    query=QUERY,
    run_access=RunAccess.RUNNING,
)
async def get_transcript(request: web.Request, caller: Caller) -> web.Response:
    """Read a trace as a conversation: what the model was told, answered and called, and what it got.

    It is read from the spans that follow OpenTelemetry's GenAI conventions, also those of a harness of your
    own. A page ends after about 1 MiB of them; a `Link` header then names the next one.
    """
    traces = request.app[STORAGE].traces
    trace = await load_of_agent(request, caller, traces.get)
    query = read_query(request, QUERY)
    after = query["after"] and await traces.get_span_cursor(trace.id, query["after"])
    if query["after"] and after is None:
        raise Invalid({"after": [unknown_id(query["after"])]})
    async with request.app[ROOM].reading(caller.accountable):  # it reads up to two megabytes
        spans = await traces.list_expanded_spans(trace, after, query["limit"], MAX_ANSWER_BYTES)
        text = await asyncio.to_thread(_transcript_json, trace, spans, is_first_page=after is None)
    headers = next_link(request, spans[-1].span.id, query["limit"]) if spans.is_cut else {}
    return web.Response(body=text, headers={**headers, "Content-Type": JSON_TYPE})


def _transcript_json(trace: Trace, spans: list[ExpandedSpan], *, is_first_page: bool) -> bytes:
    entries, tools = transcript(spans, is_first_page=is_first_page)
    response: TraceTranscriptResponse = {
        "trace": trace.id,
        "agent": trace.agent_id,
        "name": trace.name,
        "started_at": trace.started_at,
        "ended_at": trace.ended_at,
        "error": trace.error,
        "tools": tools,
        "entries": entries,
    }
    return to_json(response)
