"""Spans in the protocol of OpenTelemetry (OTLP), with its conventions for generative AI, in both directions.

The protocol's ids of a span and of its parent have 8 bytes. They are the second half of ours; the first half
is that of the trace's id. So no id is looked up, and a span that is sent twice has one id.
"""

from base64 import b64encode
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import orjson
from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from storage.history.span_exports import EndedSpan
from storage.history.spans import INSTRUCTIONS, TOOL_DEFINITIONS
from storage.history.trace_model import NewSpan, Span, usage_of
from storage.postgres.json_values import to_json
from supervisors.harness.trace_recorder import INPUT_MESSAGES, OUTPUT_MESSAGES, shortened_json
from supervisors.text import storable

OPERATION = "gen_ai.operation.name"
SPAN_TYPES = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "embeddings": "embedding",
    "retrieval": "retrieval",
    "execute_tool": "tool",
    "create_agent": "agent",
    "invoke_agent": "agent",
}
# What leaves the service if content does not: names that begin with one of these, unless it is content.
KNOWN_NAMES = (
    "gen_ai.",
    "hostsvc.",
    "harness.",
    "otel.",
    "process.exit.",
    "server.",
    "service.name",
    "error.type",
)
CONTENT_NAMES = (
    *(INPUT_MESSAGES, OUTPUT_MESSAGES, INSTRUCTIONS, TOOL_DEFINITIONS),
    *("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.retrieval."),
    *("gen_ai.prompt", "gen_ai.completion", "gen_ai.content"),  # of earlier versions of the conventions
)
MAX_NAME, MAX_ERROR = 255, 32_768  # characters
ID_BYTES = 8
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
FAILED = "The span has the status ERROR, without a message."


@dataclass(slots=True)
class ReceivedSpans:
    """The spans of a request by the trace that they belong to, and what is refused of them."""

    by_trace: dict[UUID, dict[UUID, NewSpan]] = field(default_factory=lambda: defaultdict(dict))
    refused: int = 0
    reason: str = ""

    def refuse(self, count: int, reason: str) -> None:
        self.refused += count
        self.reason = self.reason or reason


def traceparent_of(run_id: UUID) -> str:
    """Return the W3C header by which other programs put their spans below the run's own span."""
    return f"00-{run_id.hex}-{run_id.hex[2 * ID_BYTES :]}-01"


def read_spans(run_id: UUID | None, max_bytes: int, is_json: bool, body: bytes) -> ReceivedSpans:
    """Read a request. All spans are those of the run, if one is given; else their trace ids are ids of runs.

    Attributes of more than `max_bytes` are cut. Raise ValueError if the body is no such request.
    """
    received = ReceivedSpans()
    for resource in _parsed(body, is_json).resource_spans:
        service = [each for each in resource.resource.attributes if each.key == "service.name"]
        for scope in resource.scope_spans:
            common = _values(service) | ({"otel.scope.name": scope.scope.name} if scope.scope.name else {})
            for span in scope.spans:
                if len(span.trace_id) != 2 * ID_BYTES or len(span.span_id) != ID_BYTES:
                    received.refuse(1, "A span needs a trace id of 16 bytes and an id of 8 bytes.")
                elif not span.start_time_unix_nano:
                    received.refuse(1, "A span needs a start time.")
                else:
                    new = _new_span(span, run_id or UUID(bytes=span.trace_id), common, max_bytes)
                    received.by_trace[new.span.trace_id][new.span.id] = new
    return received


def _parsed(body: bytes, is_json: bool) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    try:
        if not is_json:
            request.ParseFromString(body)
            return request
        Parse(body, request, ignore_unknown_fields=True)
        spans = (
            span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans
        )
        for span in spans:  # the ids are hexadecimal in JSON, unlike other bytes
            span.trace_id, span.span_id, span.parent_span_id = map(
                _from_hex, (span.trace_id, span.span_id, span.parent_span_id)
            )
    except (DecodeError, ParseError, ValueError, RecursionError) as error:
        raise ValueError(f"The body is no ExportTraceServiceRequest: {error}") from error
    return request


def _from_hex(read_as_base64: bytes) -> bytes:
    """Return the bytes of a hexadecimal text that was read as if it were Base64."""
    return bytes.fromhex(b64encode(read_as_base64).decode())


def _new_span(span: trace_pb2.Span, run_id: UUID, common: Mapping[str, Any], max_bytes: int) -> NewSpan:
    """Return the span as one of the run. A foreign trace hangs as a whole below the run's own span."""
    is_foreign = span.trace_id != run_id.bytes
    prefix = (sha256(run_id.bytes + span.trace_id).digest() if is_foreign else run_id.bytes)[:ID_BYTES]
    parent_id = UUID(bytes=prefix + span.parent_span_id) if len(span.parent_span_id) == ID_BYTES else run_id
    attributes = {**common, **_values(span.attributes)}
    events = [_event(event) for event in span.events]
    if events:
        attributes["events"] = events
    text = to_json(attributes)
    if len(text) > max_bytes:
        text = shortened_json(text, max_bytes)
    started_at = _moment(span.start_time_unix_nano)
    stored = Span(
        id=UUID(bytes=prefix + span.span_id),
        trace_id=run_id,
        parent_id=parent_id,
        name=storable(span.name)[:MAX_NAME].strip() or "unnamed",
        span_type=SPAN_TYPES.get(str(attributes.get(OPERATION)), "other"),
        started_at=started_at,
        ended_at=max(started_at, _moment(span.end_time_unix_nano)),
        error=_error(span, events),
        **usage_of(attributes),
    )
    return NewSpan(stored, text.decode())


def _error(span: trace_pb2.Span, events: list[dict[str, Any]]) -> str:
    if span.status.code != trace_pb2.Status.STATUS_CODE_ERROR:
        return ""
    exceptions = [str(event.get("exception.message", "")) for event in events]
    return storable(span.status.message or "".join(exceptions[-1:]))[:MAX_ERROR] or FAILED


def _event(event: trace_pb2.Span.Event) -> dict[str, Any]:
    at = _moment(event.time_unix_nano).isoformat()
    return {**_values(event.attributes), "name": event.name, "at": at}


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    match kind := value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_value(each) for each in value.array_value.values]
        case "kvlist_value":
            return _values(value.kvlist_value.values)
        case "bytes_value":
            return b64encode(value.bytes_value).decode()
        case _:
            return getattr(value, kind)


def _moment(nanoseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


def _nanoseconds(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND * 1000


def write_span(target: trace_pb2.Span, span: EndedSpan, *, has_content: bool) -> None:
    """Write an ended span into an empty message, with prompts, messages and arguments if `has_content`."""
    target.trace_id, target.span_id = span.trace_id.bytes, span.id.bytes[ID_BYTES:]
    if span.parent_id is not None:
        target.parent_span_id = span.parent_id.bytes[ID_BYTES:]
    target.name = span.name
    is_client = span.span_type in {"llm", "embedding"}
    target.kind = trace_pb2.Span.SPAN_KIND_CLIENT if is_client else trace_pb2.Span.SPAN_KIND_INTERNAL
    target.start_time_unix_nano = _nanoseconds(span.started_at)
    target.end_time_unix_nano = _nanoseconds(span.ended_at or span.started_at)
    if span.error:
        target.status.code, target.status.message = trace_pb2.Status.STATUS_CODE_ERROR, span.error
    metadata = orjson.loads(span.metadata or "{}")
    attributes = metadata if isinstance(metadata, dict) else {}
    if has_content:
        parts = {INSTRUCTIONS: span.instructions, TOOL_DEFINITIONS: span.tools}
        attributes |= {name: orjson.loads(text) for name, text in parts.items() if text}
        attributes |= orjson.loads(span.content or "{}")
    attributes["hostsvc.organization.id"] = str(span.organization_id)
    attributes["gen_ai.agent.id"] = str(span.agent_id)
    target.attributes.extend(
        KeyValue(key=name, value=any_value(value))
        for name, value in attributes.items()
        if has_content or (name.startswith(KNOWN_NAMES) and not name.startswith(CONTENT_NAMES))
    )


def any_value(value: Any) -> AnyValue:
    """Return a JSON value as that of an attribute: objects and mixed lists as JSON texts."""
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int() if -(2**63) <= value < 2**63:
            return AnyValue(int_value=value)
        case int() | float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case [*texts] if all(isinstance(text, str) for text in texts):
            return AnyValue(array_value=ArrayValue(values=map(any_value, texts)))
        case _:
            return AnyValue(string_value=to_json(value).decode())
