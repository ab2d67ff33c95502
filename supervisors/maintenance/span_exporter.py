"""The export of spans: those of each run that has ended go to a receiver of OpenTelemetry, at least once.

The log of events says which runs have ended. How far it has been read is stored after the receiver has taken
the spans. While it is away, nothing is kept for it: what retention removes until then is only counted.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import takewhile

import structlog
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from storage.events.model import Event, EventType
from storage.events.reader import EventReader
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.otlp import attributes_of, write_span
from supervisors.outbound import OutboundAnswer, OutboundError

log = structlog.get_logger(__name__)

MAX_SPANS, MAX_BYTES = 500, 1_048_576  # of a page and of a batch
SLICE = 20  # spans that are written before others have their turn
SETTLE_SECONDS = 5.0  # beside the grace period, in which a run that sleeps already may still record steps
MAX_PAUSE_SECONDS = 60.0  # between two attempts, unless the receiver asks for more
MAX_REQUESTED_SECONDS = 3600.0
BLOCKED_SECONDS = 0.1  # between two reads while events wait for a transaction before them
UNUSABLE = frozenset({400, 413, 422})  # answers to a batch that would not be taken the next time either

Post = Callable[[bytes], Awaitable[OutboundAnswer]]
"""Sends a request to the receiver. Raises OutboundError."""


class SpanExporter:
    """Sends the spans of ended runs, this long `after` their ends; prompts and answers if `has_content`."""

    def __init__(
        self,
        storage: Storage,
        post: Post,
        clock: Clock,
        resource: Mapping[str, str],
        after: timedelta,
        *,
        has_content: bool,
    ) -> None:
        self._store, self._traces, self._events = storage.instance, storage.traces, storage.events
        self._post, self._clock, self._has_content = post, clock, has_content
        self._resource = Resource(attributes=attributes_of(resource))
        self._after = after + timedelta(seconds=SETTLE_SECONDS)
        self._failures, self._retry_at = 0, 0.0

    async def run_once(self) -> None:
        """Send what is due, until nothing is left or the receiver fails; then wait for longer each time."""
        if self._clock.monotonic() < self._retry_at:
            return
        reader, position = EventReader(self._events), await self._store.spans_exported_until()
        if position is None:  # export the runs that end from now on
            await reader.skip(partial(self._clock.sleep, BLOCKED_SECONDS))
            await self._store.set_spans_exported(reader.settled)
            return
        reader.settled = position
        try:
            while await self._export_next(reader):
                pass
            self._failures = 0
        except OutboundError as error:
            pause = min(2.0 ** min(self._failures, 10), MAX_PAUSE_SECONDS)
            self._retry_at = max(self._retry_at, self._clock.monotonic() + pause)
            if self._failures == 0:
                log.warning("spans not exported yet", reason=str(error))
            self._failures += 1
            self._store.span_exports["failed"] += 1

    async def _export_next(self, reader: EventReader) -> bool:
        """Send the spans of the runs that ended by the next events. Return whether there are further ones."""
        events, latest = await reader.read(), self._clock.now() - self._after
        ready = list(takewhile(lambda event: event.at <= latest, events))
        spans, size = [], 0
        for event in ready:
            async for span in self._spans_of(event):
                spans.append(span)
                size += span.ByteSize()
                if len(spans) == MAX_SPANS or size > MAX_BYTES:
                    await self._send(spans)
                    spans, size = [], 0
        if spans:
            await self._send(spans)
        if ready:
            await self._store.set_spans_exported(ready[-1].id)
        elif reader.is_blocked and not events:
            await self._clock.sleep(BLOCKED_SECONDS)
            return True
        return len(ready) == len(events) > 0

    async def _spans_of(self, event: Event) -> AsyncIterator[Span]:
        """Yield the spans of a run that is over. Writing them must not hold up the event loop."""
        if event.type is not EventType.RUN_ENDED or event.run_id is None:
            return
        trace, after, is_cut = await self._traces.get(event.run_id), None, True
        self._store.span_exports["skipped"] += trace is None
        while trace and is_cut:
            began = self._clock.monotonic()
            page = await self._traces.list_expanded_spans(trace, after, MAX_SPANS, MAX_BYTES)
            for number, expanded in enumerate(page, 1):
                if expanded.span.ended_at is not None:
                    yield write_span(trace, expanded, has_content=self._has_content)
                after = (expanded.span.started_at, expanded.span.id)
                if number % SLICE == 0:
                    await self._clock.sleep(0)
            is_cut = page.is_cut
            await self._clock.sleep(self._clock.monotonic() - began)

    async def _send(self, spans: Sequence[Span]) -> None:
        """Send a batch. Raise OutboundError if it must be sent again."""
        batch = ResourceSpans(resource=self._resource, scope_spans=[ScopeSpans(spans=spans)])
        answer = await self._post(
            messages.ExportTraceServiceRequest(resource_spans=[batch]).SerializeToString()
        )
        if answer.status >= 300 and answer.status not in UNUSABLE:
            requested = answer.retry_after or timedelta()
            self._retry_at = self._clock.monotonic() + min(requested.total_seconds(), MAX_REQUESTED_SECONDS)
            raise OutboundError(f"The receiver answered {answer.status}.")
        refused = len(spans) if answer.status in UNUSABLE else 0
        try:
            told = messages.ExportTraceServiceResponse.FromString(answer.body)
            refused = refused or told.partial_success.rejected_spans
        except DecodeError:
            pass  # the status alone says whether they were taken
        if refused:
            log.warning("spans refused by the receiver", status=answer.status, count=refused)
        self._store.span_exports["refused"] += refused
        self._store.span_exports["sent"] += len(spans) - refused
