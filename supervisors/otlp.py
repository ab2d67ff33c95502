"""Spans in the protocol of OpenTelemetry (OTLP), with its conventions for generative AI, in both directions.

The protocol's ids of a span and of its parent have 8 bytes. They are the second half of ours; the first half
is that of the trace's id. So no id is looked up, and a span that is sent twice has one id.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sized
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any
from uuid import UUID

from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from storage.history.trace_model import NewSpan, Span, usage_of
from storage.history.traces import ExpandedSpan, TraceOwner
from storage.postgres.json_values import decoded, to_json
from supervisors.text import shortened_json, storable

SPAN_TYPES = {
    **dict.fromkeys(("chat", "generate_content", "text_completion"), "llm"),
    **dict.fromkeys(("create_agent", "invoke_agent"), "agent"),
    "embeddings": "embedding",
    "execute_tool": "tool",
    "retrieval": "retrieval",
}
# The attributes that leave the service if content does not: those of the conventions that are none, and ours.
WITHOUT_CONTENT = re.compile(
    r"gen_ai\.(operation\.name|provider\.name|system|conversation\.id|output\.type|agent\.(id|name|version)"
    r"|request\.(model|max_tokens|temperature|top_[kp]|seed|choice\.count|(frequency|presence)_penalty)"
    r"|response\.(id|model|finish_reasons)|usage\.[a-z_.]+|tool\.(name|type|call\.id)|data_source\.id)$"
    r"|(hostsvc|harness|otel|process\.exit|server|service|error)\."
)
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
SCALARS = {bool: "bool_value", int: "int_value", float: "double_value", str: "string_value"}
MAX_NANOSECONDS = 2**63 - 1
MAX_NAME, MAX_ERROR = 255, 32_768  # characters
MAX_PARTS, PART_BYTES = 50_000, 8  # of a request: honest spans, attributes and objects are longer


def traceparent_of(trace_id: UUID, span_id: UUID | None = None) -> str:
    """Return the W3C header by which other programs put their spans below one of ours, or the run's own."""
    return f"00-{trace_id.hex}-{(span_id or trace_id).hex[16:]}-01"


def read_spans(run_id: UUID | None, max_bytes: int, is_json: bool, body: bytes) -> tuple[list[NewSpan], int]:
    """Return the spans of a request, each once, and the number of unusable ones.

    All spans are those of the run, if one is given; else their trace ids are ids of runs. Attributes of more
    than `max_bytes` are cut. Raise ValueError if the body is no such request.
    """
    spans, unusable = dict[UUID, NewSpan](), 0
    request = _parsed(body, is_json)
    left = _left(min(MAX_PARTS, len(body) // PART_BYTES), request.resource_spans)
    for resource in request.resource_spans:
        left = _left(left, resource.scope_spans, resource.resource.attributes)
        service = _values(each for each in resource.resource.attributes if each.key == "service.name")
        for scope in resource.scope_spans:
            common = service | ({"otel.scope.name": scope.scope.name} if scope.scope.name else {})
            left = _left(left, scope.spans)
            for span in scope.spans:
                left = _left(left, span.attributes, span.events)
                if (len(span.trace_id), len(span.span_id)) == (16, 8) and span.start_time_unix_nano:
                    new = _new_span(span, run_id or UUID(bytes=span.trace_id), common, max_bytes)
                    spans[new.span.id] = new
                else:
                    unusable += 1
    return list(spans.values()), unusable


def _left(left: int, *parts: Sized) -> int:
    """Return how many further parts a request may have: each takes microseconds, even an empty one."""
    left -= sum(map(len, parts))
    if left < 0:
        raise ValueError("The body has too many parts for its length.")
    return left


def _parsed(body: bytes, is_json: bool) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    try:
        if not is_json:
            request.ParseFromString(body)
            return request
        _left(len(body) // PART_BYTES, range(body.count(b"{")))
        Parse(body, request, ignore_unknown_fields=True)
        scopes = [scope for resource in request.resource_spans for scope in resource.scope_spans]
        for span in (span for scope in scopes for span in scope.spans):
            for name in ("trace_id", "span_id", "parent_span_id"):
                # Ids are hexadecimal in JSON, unlike other bytes, and were read as if they were Base64.
                setattr(span, name, bytes.fromhex(b64encode(getattr(span, name)).decode()))
    except (DecodeError, ParseError, ValueError, RecursionError) as error:
        raise ValueError(f"The body is no ExportTraceServiceRequest: {error}") from error
    return request


def _new_span(span: trace_pb2.Span, run_id: UUID, common: Mapping[str, Any], max_bytes: int) -> NewSpan:
    """Return the span as one of the run. A foreign trace hangs as a whole below the run's own span."""
    is_foreign = span.trace_id != run_id.bytes
    half = (sha256(run_id.bytes + span.trace_id).digest() if is_foreign else run_id.bytes)[:8]
    has_parent, error = len(span.parent_span_id) == 8, ""
    events = [{**_values(each.attributes), "name": each.name} for each in span.events]
    attributes = {**common, **_values(span.attributes), **({"events": events} if events else {})}
    text, started_at = to_json(attributes), _moment(span.start_time_unix_nano)
    if span.status.code == trace_pb2.Status.STATUS_CODE_ERROR:
        error = storable(span.status.message)[:MAX_ERROR] or "The span has failed, without a message."
    stored = Span(
        id=UUID(bytes=half + span.span_id),
        trace_id=run_id,
        parent_id=UUID(bytes=half + span.parent_span_id) if has_parent else run_id,
        name=storable(span.name)[:MAX_NAME].strip() or "unnamed",
        span_type=SPAN_TYPES.get(str(attributes.get("gen_ai.operation.name")), "other"),
        started_at=started_at,
        ended_at=max(started_at, _moment(span.end_time_unix_nano)),
        error=error,
        **usage_of(attributes),
    )
    return NewSpan(stored, (text if len(text) <= max_bytes else shortened_json(text, max_bytes)).decode())


def _values(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _values(value.kvlist_value.values)
    found = getattr(value, kind) if kind else None
    return b64encode(found).decode() if isinstance(found, bytes) else found


def _moment(nanoseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


def _nanoseconds(moment: datetime) -> int:
    """Return what the protocol can say of a moment: clients choose those of their spans."""
    return min(max(0, (moment - EPOCH) // MICROSECOND * 1000), MAX_NANOSECONDS)


def write_spans(
    resource: Mapping[str, Any],
    owners: Mapping[UUID, TraceOwner],
    spans: Iterable[ExpandedSpan],
    *,
    has_content: bool,
) -> bytes:
    """Return a request with the spans; with prompts, messages and arguments if it `has_content`.

    `owners` has those of their traces.
    """
    request = ExportTraceServiceRequest()
    described: Any = {"attributes": attributes_of(resource)}
    written: Any = request.resource_spans.add(resource=described).scope_spans.add().spans
    for expanded in spans:
        _add_span(written, owners[expanded.span.trace_id], expanded, has_content=has_content)
    encoded: bytes = request.SerializeToString()
    return encoded


def halves_of(request: bytes) -> list[tuple[bytes, int]]:
    """Return two requests, each with half of the spans of one of `write_spans`, and how many."""
    [together] = ExportTraceServiceRequest.FromString(request).resource_spans
    spans = together.scope_spans[0].spans
    middle, halves = len(spans) // 2, []
    for half in (spans[:middle], spans[middle:]):
        written = ExportTraceServiceRequest()
        written.resource_spans.add(resource=together.resource).scope_spans.add(spans=half)
        halves.append((written.SerializeToString(), len(half)))
    return halves


def _add_span(written: Any, trace: TraceOwner, expanded: ExpandedSpan, *, has_content: bool) -> None:
    span, kinds, status = expanded.span, trace_pb2.Span, trace_pb2.Status
    metadata = decoded(expanded.metadata)
    known = metadata.items() if isinstance(metadata, dict) else ()
    attributes = {name: value for name, value in known if has_content or _is_without_content(name)}
    owners = {"hostsvc.organization.id": str(trace.organization_id), "gen_ai.agent.id": str(trace.agent_id)}
    written.add(
        trace_id=span.trace_id.bytes,
        span_id=span.id.bytes[8:],
        parent_span_id=span.parent_id.bytes[8:] if span.parent_id else b"",
        name=span.name,
        kind=kinds.SPAN_KIND_CLIENT if span.span_type == "llm" else kinds.SPAN_KIND_INTERNAL,
        start_time_unix_nano=_nanoseconds(span.started_at),
        end_time_unix_nano=_nanoseconds(span.ended_at or span.started_at),
        attributes=attributes_of(attributes | owners),
        status=status(code=status.STATUS_CODE_ERROR, message=expanded.error) if span.has_error else None,
    )


@lru_cache(256)  # few names come again and again
def _is_without_content(name: str) -> bool:
    return WITHOUT_CONTENT.match(name) is not None


def attributes_of(values: Mapping[str, Any]) -> list[Any]:
    """Return JSON values as attributes: objects and mixed lists as JSON texts.

    They are dictionaries, of which a message is built in a third of the time that messages would take.
    """
    return [{"key": name, "value": _any_value(value)} for name, value in values.items()]


def _any_value(value: Any) -> dict[str, Any]:
    kind = SCALARS.get(type(value))
    if kind and (kind != "int_value" or abs(value) < 2**63):
        return {kind: value}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return {"array_value": {"values": [_any_value(each) for each in value]}}
    return {"string_value": to_json(value).decode()}
