"""Spans from the exporters of OpenTelemetry SDKs: OTLP over HTTP, in protobuf and JSON."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from uuid import UUID

import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from marshmallow import INCLUDE
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from storage.errors import NotUnique, TraceFull
from storage.history.trace_model import NewSpan
from storage.history.traces import Traces
from supervisors.otlp import read_spans
from web.access.auth import Caller, RunAccess
from web.api.tracing.spans import TRACE_FULL
from web.app_keys import SETTINGS, STORAGE
from web.errors import BadRequest, UnsupportedMediaType, refuse
from web.fields import printable
from web.json import JSON_TYPE
from web.request.body import media_type
from web.request.parsing import Body, read_bytes
from web.routes import CallerRoute
from web.settings import LimitSettings

PROTOBUF = "application/x-protobuf"
UNUSABLE = "A span needs a trace id of 16 bytes, an id of 8 bytes, and a start."
NO_TRACE = "There is no trace {} that you may write to; the trace id must be the id of a run."


class SpansBody(Body):
    """A request of the protocol, which describes it."""

    class Meta:
        unknown = INCLUDE


class OtlpRoute(CallerRoute):
    """A route whose refusals are messages of the protocol, too, in the format of the request."""

    __slots__ = ()

    def endpoint(self, limits: LimitSettings) -> Handler:
        respond = CallerRoute.endpoint(self, limits)

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                return await respond(request)
            except Exception as error:  # the outermost edge of a request, as in the server
                refused = await refuse(request, error)
                body = getattr(refused, "body", b"")
                refused.headers[hdrs.CONTENT_TYPE] = _format(request)
                # google.rpc.Status has its `message` under the same number. Its `code` is not used in HTTP.
                status = Status(message=orjson.loads(body).get("detail", body.decode()))
                return web.Response(
                    body=_encoded(request, status), status=refused.status, headers=refused.headers
                )

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
        spans, unusable = await read_bytes(request, partial(read_spans, run_id, most, kind == JSON_TYPE))
    except ValueError as error:
        raise BadRequest(printable(str(error))) from error
    by_trace = defaultdict[UUID, list[NewSpan]](list)
    for new in spans.values():
        if new.span.id != new.span.trace_id:  # the run's own span, which only the run writes
            by_trace[new.span.trace_id].append(new)
    owners = await traces.list_owners(list(by_trace))
    reasons = {UNUSABLE: unusable} if unusable else {}
    for trace_id, of_trace in by_trace.items():
        owner = owners.get(trace_id)
        if owner is None or not (caller.run or owner.organization_id in caller.roles):
            reasons[NO_TRACE.format(trace_id)] = len(of_trace)
        elif full := await _store(traces, of_trace):
            reasons[TRACE_FULL.format(traces.max_spans, traces.max_spans)] = full
    if reasons:
        answer.partial_success.rejected_spans = sum(reasons.values())
        answer.partial_success.error_message = next(iter(reasons))
    return web.Response(body=_encoded(request, answer), headers={hdrs.CONTENT_TYPE: _format(request)})


routes = [OtlpRoute("POST", "/v1/traces", receive_spans, body=SpansBody(), run_access=RunAccess.FINISHING)]


async def _store(traces: Traces, spans: Sequence[NewSpan]) -> int:
    """Store the spans that their trace lacks. Return for how many it has no room."""
    lost = 0
    while spans:
        try:
            await traces.insert_spans(spans)
            break
        except NotUnique:
            known = await traces.list_known_span_ids([new.span.id for new in spans])
            spans = [new for new in spans if new.span.id not in known]
        except TraceFull as error:
            room = max(0, error.max_spans - error.stored)
            lost, spans = lost + len(spans) - room, spans[:room]
    return lost


def _format(request: web.Request) -> str:
    """Return the content type of an answer, which is that of the request."""
    kind = media_type(request.headers.get(hdrs.CONTENT_TYPE, ""))
    return PROTOBUF if kind == PROTOBUF else JSON_TYPE


def _encoded(request: web.Request, message: Message) -> bytes:
    if _format(request) == PROTOBUF:
        return bytes(message.SerializeToString())
    return str(MessageToJson(message, indent=None)).encode()
