"""Spans from the exporters of OpenTelemetry SDKs: OTLP over HTTP, in protobuf and JSON."""

from collections.abc import Sequence
from functools import partial

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
from storage.history.traces import TraceOwner, Traces
from supervisors.otlp import read_spans
from web.access.auth import Caller, RunAccess
from web.api.tracing.spans import TRACE_FULL
from web.app_keys import SETTINGS, STORAGE
from web.errors import BadRequest, UnsupportedMediaType, refuse
from web.fields import printable
from web.json import JSON_TYPE
from web.request.body import media_type
from web.request.parsing import Body, read_bytes
from web.routes import CallerRoute, Routes
from web.settings import LimitSettings

PROTOBUF = "application/x-protobuf"
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


routes = Routes()


async def receive_spans(request: web.Request, caller: Caller) -> web.Response:
    """Store the spans of a batch, below the run whose token is used, or whose id is their trace id.

    A span that was stored before stays as it is. Spans that are refused are counted in the answer.
    """
    kind = media_type(request.headers.get(hdrs.CONTENT_TYPE, ""))
    if kind not in {PROTOBUF, JSON_TYPE}:
        raise UnsupportedMediaType(f'Unsupported media type "{printable(kind)}" in request.')
    run_id, traces = caller.run.run_id if caller.run else None, request.app[STORAGE].traces
    most = request.app[SETTINGS].limits.span_metadata_bytes
    try:
        received = await read_bytes(request, partial(read_spans, run_id, most, kind == JSON_TYPE))
    except ValueError as error:
        raise BadRequest(printable(str(error))) from error
    owners = await traces.list_owners(list(received.by_trace))
    for trace_id, by_id in received.by_trace.items():
        by_id.pop(trace_id, None)  # the run's own span, which only the run writes
        if not _may_write(caller, owners.get(trace_id)):
            received.refuse(len(by_id), NO_TRACE.format(trace_id))
        elif full := await _store(traces, list(by_id.values())):
            received.refuse(*full)
    answer = ExportTraceServiceResponse()
    if received.refused:
        answer.partial_success.rejected_spans = received.refused
        answer.partial_success.error_message = received.reason
    return web.Response(body=_encoded(request, answer), headers={hdrs.CONTENT_TYPE: _format(request)})


routes.append(
    OtlpRoute("POST", "/v1/traces", receive_spans, body=SpansBody(), run_access=RunAccess.FINISHING)
)


def _may_write(caller: Caller, owner: TraceOwner | None) -> bool:
    """Return whether the trace exists and the caller, who is no other run, may write to it."""
    return owner is not None and (caller.run is not None or owner.organization_id in caller.roles)


async def _store(traces: Traces, spans: Sequence[NewSpan]) -> tuple[int, str] | None:
    """Store the spans that their trace lacks. Return how many it has no room for, and why."""
    full = None
    while spans:
        try:
            await traces.insert_spans(spans)
            break
        except NotUnique:
            known = await traces.list_known_span_ids([new.span.id for new in spans])
            spans = [new for new in spans if new.span.id not in known]
        except TraceFull as error:
            room = max(0, error.max_spans - error.stored)
            lost = len(spans) - room + (full[0] if full else 0)
            full, spans = (lost, TRACE_FULL.format(error.max_spans, error.stored)), spans[:room]
    return full


def _format(request: web.Request) -> str:
    """Return the content type of an answer, which is that of the request."""
    kind = media_type(request.headers.get(hdrs.CONTENT_TYPE, ""))
    return PROTOBUF if kind == PROTOBUF else JSON_TYPE


def _encoded(request: web.Request, message: Message) -> bytes:
    if _format(request) == PROTOBUF:
        return bytes(message.SerializeToString())
    return str(MessageToJson(message, indent=None)).encode()
