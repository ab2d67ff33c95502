"""Spans: the steps of traces, created one at a time or many at once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.errors import NotUnique, TraceFull
from storage.history.span_usage import usage_of
from storage.history.trace_model import NewSpan, Span
from storage.history.traces import SpanOwner, TraceOwner, Traces
from storage.ids import new_id
from web.access.auth import Caller, RunAccess
from web.access.path_access import load, load_of_agent
from web.app_keys import CLOCK, SETTINGS, STORAGE
from web.errors import Invalid, PermissionDenied, TooLarge
from web.fields import unknown_id
from web.idempotency import read_items_once, receipt_of
from web.json import json_response, to_json
from web.request.local_times import localize
from web.request.parsing import read_body
from web.routes import Routes
from web.schemas.spans import (
    DATETIME_FIELDS,
    FullSpanResponse,
    NewSpanBody,
    SpanEndBody,
    SpanResponse,
    serialize_full_span,
    serialize_span,
)
from web.settings import SPAN_BODY_BYTES
from web.trace_endings import check_order, ending_of

routes = Routes()

NEW = NewSpanBody()
END = SpanEndBody()

MAX_SPANS = 500
IS_OWN_PARENT = "A span may not be its own parent."
PARENT_IN_OTHER_TRACE = "This is not a span of the trace."
TRACE_FULL = "A trace may have at most {} spans (limits.spans_per_trace), and this one has {}."
ID_TAKEN = ["span with this id already exists."]

MessagesByIndex = dict[int, Mapping[str, Any]]


@routes.create(
    "/api/tracing/spans/",
    answer=SpanResponse | list[SpanResponse],
    body=NEW,
    run_access=RunAccess.FINISHING,
    body_bytes=SPAN_BODY_BYTES,
    max_items=MAX_SPANS,
)
async def create_spans(request: web.Request, caller: Caller) -> web.Response:
    """Create one span, or a list of up to 500 spans of which all or none are stored.

    The answer is a span or a list like the body. A trace may have `limits.spans_per_trace` spans; beyond it
    the answer is 400. Metadata that is too long is refused with 413.
    """
    traces = request.app[STORAGE].traces
    max_bytes = request.app[SETTINGS].limits.span_metadata_bytes
    encode = partial(_encode_metadata, max_bytes)
    bodies, is_list = await read_items_once(request, caller, NEW, MAX_SPANS, encode)
    owners = await traces.list_owners({body["trace_id"] for body in bodies})
    spans = _build_spans(bodies, owners, request.app[CLOCK].now(), is_list)
    for trace_id, owner in owners.items():
        caller.require_trace(trace_id, owner.organization_id)
    await _check_parents(traces, spans, owners, is_list)
    created = [serialize_span(new.span) for new in spans]
    answer = json_response(created if is_list else created[0], status=201)
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


@routes.get("/api/tracing/spans/{id}/", answer=FullSpanResponse, run_access=RunAccess.RUNNING)
async def get_span(request: web.Request, caller: Caller) -> web.Response:
    """Read one span with its error and metadata."""
    full = await load_of_agent(request, caller, request.app[STORAGE].traces.get_span)
    return json_response(serialize_full_span(full))


@routes.post(
    "/api/tracing/spans/{id}/end/",
    answer=FullSpanResponse,
    body=END,
    run_access=RunAccess.FINISHING,
    body_bytes=SPAN_BODY_BYTES,
)
async def end_span(request: web.Request, caller: Caller) -> web.Response:
    """End a span; a repetition is harmless."""
    traces = request.app[STORAGE].traces
    full = await load(request, traces.get_span)
    span = full.span
    caller.require_trace(span.trace_id, full.organization_id)
    body = await read_body(request, END)
    _metadata_json(request.app[SETTINGS].limits.span_metadata_bytes, body.get("metadata"))
    owners = await traces.list_owners({span.trace_id})
    zone = ZoneInfo(owners[span.trace_id].timezone)
    await traces.end_span(span.id, ending_of(body, span.started_at, zone, request.app[CLOCK].now()))
    return json_response(serialize_full_span(await load(request, traces.get_span)))


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
