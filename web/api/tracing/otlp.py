"""Spans from the exporters of OpenTelemetry SDKs: OTLP over HTTP, in protobuf and JSON."""

from collections import defaultdict
from functools import partial
from uuid import UUID

import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from storage.errors import NotUnique, TraceFull
from storage.history.trace_model import NewSpan
from storage.history.traces import Traces
from supervisors.otlp import read_spans
from web.access.auth import Caller, RunAccess
from web.api.tracing.spans import MAX_SPANS
from web.app_keys import SETTINGS, STORAGE
from web.errors import BadRequest, UnsupportedMediaType, refuse
from web.fields import printable
from web.json import JSON_TYPE
from web.request.parsing import NO_FIELDS, media_type, read_bytes
from web.routes import CallerRoute
from web.settings import LimitSettings

PROTOBUF = "application/x-protobuf"
REFUSED = (
    "A span needs an id, a start and the id of a run of yours, with up to {} spans (limits.spans_per_trace)."
)


class OtlpRoute(CallerRoute):
    """A route whose refusals are messages of the protocol, too, in the format of the request."""

    def endpoint(self, limits: LimitSettings) -> Handler:
        respond = CallerRoute.endpoint(self, limits)

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                return await respond(request)
            except Exception as error:  # the outermost edge of a request, as in the server
                refused = await refuse(request, error)
                body = getattr(refused, "body", b"")
                # google.rpc.Status has its `message` under the same number. Its `code` is not used in HTTP.
                status = Status(message=orjson.loads(body).get("detail", body.decode()))
                return _response(request, status, refused)

        return answer


async def receive_spans(request: web.Request, caller: Caller) -> web.Response:
    """Store the spans of a batch, below the run whose token is used, or whose id is their trace id.

    A span that was stored before stays as it is. Spans that are refused are counted in the answer.
    """
    kind = media_type(request.headers.get(hdrs.CONTENT_TYPE, ""))
    if kind not in {PROTOBUF, JSON_TYPE}:
        raise UnsupportedMediaType(f'Unsupported media type "{printable(kind)}" in request.')
    run_id, traces = caller.run.run_id if caller.run else None, request.app[STORAGE].traces
    most, answer = request.app[SETTINGS].limits.span_metadata_bytes, ExportTraceServiceResponse()
    try:
        spans, refused = await read_bytes(request, partial(read_spans, run_id, most, kind == JSON_TYPE))
    except ValueError as error:
        raise BadRequest(printable(str(error))) from error
    by_trace = defaultdict[UUID, list[NewSpan]](list)
    for new in spans:
        if new.span.id != new.span.trace_id:  # the run's own span, which only the run writes
            by_trace[new.span.trace_id].append(new)
    owners = await traces.list_owners(list(by_trace))
    for trace_id, of_trace in by_trace.items():
        owner = owners.get(trace_id)
        may_write = owner and (caller.run or owner.organization_id in caller.roles)
        refused += await _store(traces, of_trace) if may_write else len(of_trace)
    if refused:
        answer.partial_success.rejected_spans = refused
        answer.partial_success.error_message = REFUSED.format(traces.max_spans)
    return _response(request, answer)


routes = [OtlpRoute("POST", "/v1/traces", receive_spans, body=NO_FIELDS, run_access=RunAccess.FINISHING)]


async def _store(traces: Traces, spans: list[NewSpan]) -> int:
    """Store the spans that their trace lacks. Return for how many it has no room."""
    lost, parts = 0, [spans[start : start + MAX_SPANS] for start in range(0, len(spans), MAX_SPANS)]
    while parts:
        try:
            await traces.insert_spans(parts[-1])
            parts.pop()
        except NotUnique:
            known = await traces.list_known_span_ids([new.span.id for new in parts[-1]])
            parts[-1] = [new for new in parts[-1] if new.span.id not in known]
        except TraceFull as error:
            room = max(0, error.max_spans - error.stored)
            lost, parts[-1] = lost + len(parts[-1]) - room, parts[-1][:room]
    return lost


def _response(
    request: web.Request, message: Message, error: web.StreamResponse | None = None
) -> web.Response:
    """Return a message in the format of the request, JSON if that is none of the protocol."""
    kind, body = JSON_TYPE, MessageToJson(message, indent=None).encode()
    if media_type(request.headers.get(hdrs.CONTENT_TYPE, "")) == PROTOBUF:
        kind, body = PROTOBUF, message.SerializeToString()
    status, headers = (error.status, dict(error.headers)) if error else (200, {})
    return web.Response(body=body, status=status, headers=headers | {hdrs.CONTENT_TYPE: kind})
