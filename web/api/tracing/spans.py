"""Spans: the steps of traces, created one at a time or many at once."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.errors import NotUnique, TraceFull
from storage.history.trace_model import NewSpan, Span, SpanSummary, usage_of
from storage.history.traces import Ending, SpanOwner, SpanWithMetadata, TraceOwner, Traces
from storage.ids import new_id
from storage.postgres.paging import Cursor
from web.access.auth import Caller, RunAccess
from web.access.path_access import load, load_of_agent
from web.app_keys import CLOCK, SETTINGS, STORAGE
from web.errors import Invalid, PermissionDenied, TooLarge
from web.fields import MAX_SIDE_TEXT, Datetime, JsonValue, Line, Text, Uuid, unknown_id
from web.idempotency import read_items_once, receipt_of
from web.json import Serializer, to_json
from web.request.parsing import Body, localize, read_body
from web.routes import Routes
from web.settings import SPAN_BODY_BYTES

DATETIME_FIELDS = ("started_at", "ended_at")


class NewSpanBody(Body):
    """A step of a trace. Its parent may come later than itself, so it need not be known yet."""

    id = Uuid()
    """An id of yours that no span has; left out: chosen by the service."""
    trace_id = Uuid(data_key="trace", required=True)
    parent_id = Uuid(data_key="parent", allow_none=True, load_default=None)
    name = Line(required=True, blank=False, max_length=255)
    span_type = Line(blank=False, max_length=64, load_default="other")
    started_at = Datetime(allow_none=True, load_default=None)
    """When it started; null or left out: now, or `ended_at` if that is earlier."""
    ended_at = Datetime(allow_none=True, load_default=None)
    """When it ended, not before its start; null or left out: it is open."""
    error = Text(load_default="", max_length=MAX_SIDE_TEXT)
    """Why it failed; "" if it did not."""
    metadata = JsonValue(allow_none=True, load_default=dict)
    """Any JSON value, at most `limits.span_metadata_bytes` (1 MiB) as JSON."""


class SpanEndBody(Body):
    """How a span ended. A repetition keeps the first `ended_at` and replaces the rest."""

    ended_at = Datetime(allow_none=True)
    """When it ended, not before its start; null or left out: now."""
    error = Text(max_length=MAX_SIDE_TEXT)
    """Why it failed; left out: the error stays."""
    metadata = JsonValue(allow_none=True)
    """Any JSON value, which replaces the earlier one; left out: it stays."""


class SpanResponse(TypedDict):
    """A step of a trace, such as a call of a model or a tool."""

    id: UUID
    """Chosen by its creator or the service."""
    trace: UUID
    """The trace that the span belongs to."""
    name: str
    """What was done, such as `chat gpt-5` or `execute_tool sleep`."""
    started_at: datetime
    """When it started."""
    duration_ms: int | None
    """Milliseconds from start to end; null while it is open."""
    has_error: bool
    """Whether it has an error."""
    parent: UUID | None
    """The span of the same trace that this one is a part of; null if it is a part of none."""
    span_type: str
    """`agent`, `llm`, `tool`, `retrieval`, `embedding`, `other` or any other text."""
    ended_at: datetime | None
    """When it ended; null while it is open."""
    input_tokens: int | None
    """The tokens that the model read, `gen_ai.usage.input_tokens` of its metadata; null if that does
    not tell."""
    output_tokens: int | None
    """The tokens that the model wrote, `gen_ai.usage.output_tokens`; null if it does not tell."""
    cached_tokens: int | None
    """The input tokens that the model read from a cache, `gen_ai.usage.cache_read.input_tokens`; null if it
    does not tell."""
    cost_usd: float | None
    """What the model call cost, `hostsvc.usage.cost_usd`; null if it does not tell, or no price is known."""


class FullSpanResponse(SpanResponse):
    """A span with its error and metadata."""

    error: str
    """Why it failed; "" if it did not."""
    metadata: Any
    """Any JSON value, at most `limits.span_metadata_bytes` (1 MiB) as JSON; in spans of the service
    attributes by the names of OpenTelemetry."""


serialize_span: Serializer[Span | SpanSummary, SpanResponse] = Serializer(SpanResponse, SpanSummary)


def serialize_full_span(full: SpanWithMetadata) -> FullSpanResponse:
    return {**serialize_span(full.span), "error": full.span.error, "metadata": full.metadata}


async def span_cursor(traces: Traces, trace_id: UUID, span_id: UUID | None) -> Cursor | None:
    """Return the place of a span in its trace; None for the beginning. Raise Invalid for an unknown one."""
    if span_id is None:
        return None
    cursor = await traces.get_span_cursor(trace_id, span_id)
    if cursor is None:
        raise Invalid({"after": [unknown_id(span_id)]})
    return cursor


TOO_EARLY = "Ensure this is not before started_at."


def ending_of(body: dict[str, Any], started_at: datetime, zone: tzinfo, now: datetime) -> Ending:
    """Return the end that a body describes; without a time it is now, or the start if that is later.

    Raise Invalid for an end before the start.
    """
    localize(body, ("ended_at",), zone)
    ended_at: datetime | None = body.get("ended_at")
    check_order(started_at, ended_at)
    return Ending(
        ended_at=ended_at or max(now, started_at),
        name=body.get("name"),
        error=body.get("error"),
        has_metadata="metadata" in body,
        metadata=body.get("metadata"),
    )


def check_order(started_at: datetime, ended_at: datetime | None) -> None:
    """Raise Invalid for an end before its start."""
    if ended_at is not None and ended_at < started_at:
        raise Invalid({"ended_at": [TOO_EARLY]})


routes = Routes()

MAX_SPANS = 500
IS_OWN_PARENT = "A span may not be its own parent."
PARENT_IN_OTHER_TRACE = "This is not a span of the trace."
TRACE_FULL = "A trace may have at most {} spans (limits.spans_per_trace), and this one has {}."
ID_TAKEN = ["span with this id already exists."]

MessagesByIndex = dict[int, Mapping[str, Any]]


@routes.create(
    "/api/tracing/spans/",
    body=NewSpanBody,
    run_access=RunAccess.FINISHING,
    body_bytes=SPAN_BODY_BYTES,
    max_items=MAX_SPANS,
)
async def create_spans(request: web.Request, caller: Caller) -> SpanResponse | list[SpanResponse]:
    """Create one span, or a list of up to 500 spans of which all or none are stored.

    The answer is a span or a list like the body. A trace may have `limits.spans_per_trace` spans; beyond it
    the answer is 400. Metadata that is too long is refused with 413.
    """
    traces = request.app[STORAGE].traces
    max_bytes = request.app[SETTINGS].limits.span_metadata_bytes
    encode = partial(_encode_metadata, max_bytes)
    bodies, is_list = await read_items_once(request, caller, encode)
    owners = await traces.list_owners({body["trace_id"] for body in bodies})
    spans = _build_spans(bodies, owners, request.app[CLOCK].now(), is_list)
    for trace_id, owner in owners.items():
        caller.require_trace(trace_id, owner.organization_id)
    await _check_parents(traces, spans, owners, is_list)
    created = [serialize_span(new.span) for new in spans]
    answer = created if is_list else created[0]
    try:
        await traces.insert_spans(spans, receipt_of(request, answer))
    except TraceFull as error:
        full = {"trace": [TRACE_FULL.format(error.max_spans, error.stored)]}
        raise _invalid(
            {index: full for index, new in enumerate(spans) if new.span.trace_id == error.trace_id}, is_list
        ) from error
    except NotUnique as error:
        taken = await traces.list_known_span_ids([new.span.id for new in spans])
        messages: MessagesByIndex = {
            index: {"id": ID_TAKEN} for index, new in enumerate(spans) if new.span.id in taken
        }
        raise _invalid(messages, is_list) from error
    return answer


@routes.get("/api/tracing/spans/{id}/", run_access=RunAccess.RUNNING)
async def get_span(request: web.Request, caller: Caller) -> FullSpanResponse:
    """Read one span with its error and metadata."""
    full = await load_of_agent(request, caller, request.app[STORAGE].traces.get_span)
    return serialize_full_span(full)


@routes.post(
    "/api/tracing/spans/{id}/end/",
    body=SpanEndBody,
    run_access=RunAccess.FINISHING,
    body_bytes=SPAN_BODY_BYTES,
)
async def end_span(request: web.Request, caller: Caller) -> FullSpanResponse:
    """End a span; a repetition is harmless."""
    traces = request.app[STORAGE].traces
    full = await load(request, traces.get_span)
    span = full.span
    caller.require_trace(span.trace_id, full.organization_id)
    body = await read_body(request)
    _metadata_json(request.app[SETTINGS].limits.span_metadata_bytes, body.get("metadata"))
    owners = await traces.list_owners({span.trace_id})
    zone = ZoneInfo(owners[span.trace_id].timezone)
    await traces.end_span(span.id, ending_of(body, span.started_at, zone, request.app[CLOCK].now()))
    return serialize_full_span(await load(request, traces.get_span))


def _build_spans(
    bodies: Sequence[dict[str, Any]], owners: Mapping[UUID, TraceOwner], now: datetime, is_list: bool
) -> list[NewSpan]:
    """Return the spans that the bodies describe.

    Raise Invalid for traces that do not exist, ids that occur twice, and spans that end before their start.
    """
    spans: dict[UUID, NewSpan] = {}
    messages: MessagesByIndex = {}
    for index, body in enumerate(bodies):
        try:
            new = _build_span(body, owners, now)
        except Invalid as error:
            messages[index] = error.body
            continue
        if new.span.id in spans:
            messages[index] = {"id": ID_TAKEN}
        spans[new.span.id] = new
    if messages:
        raise _invalid(messages, is_list)
    return list(spans.values())


def _build_span(body: dict[str, Any], owners: Mapping[UUID, TraceOwner], now: datetime) -> NewSpan:
    trace_id: UUID = body["trace_id"]
    if trace_id not in owners:
        raise Invalid({"trace": [unknown_id(trace_id)]})
    parent_id: UUID | None = body["parent_id"]
    if parent_id is not None and parent_id == body.get("id"):
        raise Invalid({"parent": [IS_OWN_PARENT]})
    localize(body, DATETIME_FIELDS, ZoneInfo(owners[trace_id].timezone))
    ended_at: datetime | None = body["ended_at"]
    started_at: datetime = body["started_at"] or min(now, ended_at or now)
    check_order(started_at, ended_at)
    span = Span(
        id=body.get("id") or new_id(),
        trace_id=trace_id,
        parent_id=parent_id,
        name=body["name"],
        span_type=body["span_type"],
        started_at=started_at,
        ended_at=ended_at,
        error=body["error"],
        **body["usage"],
    )
    return NewSpan(span, body["metadata"])


async def _check_parents(
    traces: Traces, spans: Sequence[NewSpan], owners: Mapping[UUID, TraceOwner], is_list: bool
) -> None:
    """Raise Invalid for a parent in another trace, PermissionDenied for one of another organization.

    Parents may be among the new spans. An unknown parent is allowed: its span may be created later.
    """
    places = {
        new.span.id: SpanOwner(new.span.trace_id, owners[new.span.trace_id].organization_id) for new in spans
    }
    parent_ids = {new.span.parent_id for new in spans if new.span.parent_id is not None}
    stored_ids = parent_ids - places.keys()
    if stored_ids:
        places |= await traces.list_span_owners(stored_ids)
    messages: MessagesByIndex = {}
    for index, new in enumerate(spans):
        parent = places.get(new.span.parent_id) if new.span.parent_id else None
        if parent is None or parent.trace_id == new.span.trace_id:
            continue
        if parent.organization_id != owners[new.span.trace_id].organization_id:
            raise PermissionDenied
        messages[index] = {"parent": [PARENT_IN_OTHER_TRACE]}
    if messages:
        raise _invalid(messages, is_list)


def _encode_metadata(max_bytes: int, body: dict[str, Any]) -> None:
    """Replace the metadata of a body by its JSON, which is what is stored, and read the usage from it."""
    body["usage"] = usage_of(body["metadata"])
    body["metadata"] = _metadata_json(max_bytes, body["metadata"]).decode()


def _metadata_json(max_bytes: int, metadata: Any) -> bytes:
    """Return the metadata as JSON. Raise TooLarge if it is longer than `max_bytes`."""
    encoded = to_json(metadata)
    if len(encoded) > max_bytes:
        raise TooLarge(f"The metadata of a span may not be larger than {max_bytes} bytes.")
    return encoded


def _invalid(messages: MessagesByIndex, is_list: bool) -> Invalid:
    """Return the error with the messages by index for a list, with those of the only span otherwise."""
    return Invalid({str(index): of_span for index, of_span in messages.items()} if is_list else messages[0])
