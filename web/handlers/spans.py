"""Spans: the steps of traces, one at a time or many at once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from aiohttp import web

from storage.errors import NotUnique
from storage.history.traces import FullSpan, SpanPlace, TraceOwner, Traces
from storage.ids import new_id
from storage.model import NewSpan, Span
from web.access.auth import Caller, RunAccess
from web.access.path_access import path_id
from web.app_keys import CLOCK, SETTINGS, STORAGE
from web.errors import Invalid, NotFound, PermissionDenied, TooLarge
from web.fields import unknown_id
from web.json import json_response, to_json
from web.request.local_times import localize
from web.request.parsing import read_body, read_items
from web.routes import for_callers
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

NEW = NewSpanBody()
END = SpanEndBody()

MAX_SPANS = 500
OWN_PARENT = "A span may not be its own parent."
OTHER_TRACE = "This is not a span of the trace."
TAKEN = ["span with this id already exists."]

Refused = dict[int, Mapping[str, Any]]


async def create_spans(request: web.Request, caller: Caller) -> web.Response:
    """One span, or a list of which all are stored or none."""
    traces = request.app[STORAGE].traces
    max_bytes = request.app[SETTINGS].span_metadata_bytes
    bodies, is_list = await read_items(request, NEW, MAX_SPANS, partial(_pack, max_bytes))
    owners = await traces.owners({body["trace_id"] for body in bodies})
    spans = _spans(bodies, owners, request.app[CLOCK].now(), is_list)
    for trace_id, owner in owners.items():
        caller.require_trace(trace_id, owner.organization_id)
    await _check_parents(traces, spans, owners, is_list)
    try:
        await traces.insert_spans(spans)
    except NotUnique as error:
        taken = await traces.known_spans([new.span.id for new in spans])
        refused: Refused = {at: {"id": TAKEN} for at, new in enumerate(spans) if new.span.id in taken}
        raise _refusal(refused, is_list) from error
    shown = [serialize_span(new.span) for new in spans]
    return json_response(shown if is_list else shown[0], status=201)


async def get_span(request: web.Request, caller: Caller) -> web.Response:
    full = await _span(request)
    caller.require(full.organization_id)
    return json_response(serialize_full_span(full))


async def end_span(request: web.Request, caller: Caller) -> web.Response:
    """Once more does no harm."""
    full = await _span(request)
    span = full.span
    caller.require_trace(span.trace_id, full.organization_id)
    body = await read_body(request, END)
    _packed(request.app[SETTINGS].span_metadata_bytes, body.get("metadata"))
    owners = await request.app[STORAGE].traces.owners({span.trace_id})
    zone = ZoneInfo(owners[span.trace_id].timezone)
    closing = ending_of(body, span.started_at, zone, request.app[CLOCK].now())
    await request.app[STORAGE].traces.end_span(span.id, closing)
    return json_response(serialize_full_span(await _span(request)))


async def _span(request: web.Request) -> FullSpan:
    full = await request.app[STORAGE].traces.get_span(path_id(request))
    if full is None:
        raise NotFound
    return full


def _spans(
    bodies: Sequence[dict[str, Any]], owners: Mapping[UUID, TraceOwner], now: datetime, is_list: bool
) -> list[NewSpan]:
    """The spans that the bodies mean; Invalid for traces that do not exist, ids given twice and bad times."""
    spans: dict[UUID, NewSpan] = {}
    refused: Refused = {}
    for at, body in enumerate(bodies):
        try:
            new = _new_span(body, owners, now)
        except Invalid as error:
            refused[at] = error.body
            continue
        if new.span.id in spans:
            refused[at] = {"id": TAKEN}
        spans[new.span.id] = new
    if refused:
        raise _refusal(refused, is_list)
    return list(spans.values())


def _new_span(body: dict[str, Any], owners: Mapping[UUID, TraceOwner], now: datetime) -> NewSpan:
    trace_id: UUID = body["trace_id"]
    if trace_id not in owners:
        raise Invalid({"trace": [unknown_id(trace_id)]})
    parent_id: UUID | None = body["parent_id"]
    if parent_id is not None and parent_id == body.get("id"):
        raise Invalid({"parent": [OWN_PARENT]})
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
    )
    return NewSpan(span, body["metadata"])


async def _check_parents(
    traces: Traces, spans: Sequence[NewSpan], owners: Mapping[UUID, TraceOwner], is_list: bool
) -> None:
    """Invalid for parents in another trace, PermissionDenied for another organization's.

    Those among the new spans count, too; what is no span yet may still become one.
    """
    places = {
        new.span.id: SpanPlace(new.span.trace_id, owners[new.span.trace_id].organization_id) for new in spans
    }
    named = {new.span.parent_id for new in spans if new.span.parent_id is not None}
    if named - places.keys():
        places |= await traces.places(named - places.keys())
    refused: Refused = {}
    for at, new in enumerate(spans):
        localize = places.get(new.span.parent_id) if new.span.parent_id else None
        if localize is None or localize.trace_id == new.span.trace_id:
            continue
        if localize.organization_id != owners[new.span.trace_id].organization_id:
            raise PermissionDenied
        refused[at] = {"parent": [OTHER_TRACE]}
    if refused:
        raise _refusal(refused, is_list)


def _pack(max_bytes: int, body: dict[str, Any]) -> None:
    """Its metadata as it is stored."""
    body["metadata"] = _packed(max_bytes, body["metadata"]).decode()


def _packed(max_bytes: int, metadata: Any) -> bytes:
    packed = to_json(metadata)
    if len(packed) > max_bytes:
        raise TooLarge(f"The metadata of a span may not be larger than {max_bytes} bytes.")
    return packed


def _refusal(refused: Refused, is_list: bool) -> Invalid:
    """The messages by index for a list, plain for a single span."""
    return Invalid({str(at): messages for at, messages in refused.items()} if is_list else refused[0])


ROUTES = (
    for_callers(
        "POST",
        "/api/tracing/spans/",
        create_spans,
        "Create a span, or up to 500",
        status=201,
        answer=SpanResponse | list[SpanResponse],
        body=NEW,
        run_access=RunAccess.WINDING_UP,
        body_bytes=SPAN_BODY_BYTES,
        max_items=MAX_SPANS,
    ),
    for_callers(
        "GET",
        "/api/tracing/spans/{id}/",
        get_span,
        "Read a span with its metadata",
        answer=FullSpanResponse,
    ),
    for_callers(
        "POST",
        "/api/tracing/spans/{id}/end/",
        end_span,
        "End a span",
        answer=FullSpanResponse,
        body=END,
        run_access=RunAccess.WINDING_UP,
        body_bytes=SPAN_BODY_BYTES,
    ),
)
