"""The export of spans: those of each run that has ended go to a receiver of OpenTelemetry, at least once.

The log of events says which runs have ended, in an order that does not change. How far it has been read is
stored after the receiver has taken the spans. While the receiver is away, nothing but that position is kept:
what retention removes before it is back is only counted.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from storage.events.model import Event, EventType
from storage.events.reader import EventReader
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.otlp import attributes_of, write_span
from supervisors.outbound import OutboundAnswer, OutboundError

log = structlog.get_logger(__name__)

MAX_SPANS = 500  # of a page and of a batch
MAX_BYTES = 1_048_576
SLICE = 20  # spans that are written before others have their turn
SETTLE_SECONDS = 5.0  # beside the grace period, in which a run that sleeps already may still record steps
MAX_PAUSE_SECONDS = 60.0  # between two attempts, unless the receiver asks for more
MAX_REQUESTED_SECONDS = 3600.0
SKIP_PAUSE_SECONDS = 0.1
UNUSABLE = frozenset({400, 413, 422})  # answers to a batch that would not be taken the next time either

Post = Callable[[bytes], Awaitable[OutboundAnswer]]
"""Sends a request to the receiver. Raises OutboundError."""


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """What is sent: the attributes of the service, content or not, and how long after the end of a run."""

    resource: Mapping[str, str]
    has_content: bool
    after_seconds: float


class SpanExporter:
    """Sends the spans of ended runs."""

    def __init__(self, storage: Storage, post: Post, clock: Clock, settings: ExportSettings) -> None:
        self._store, self._traces, self._events = storage.span_exports, storage.traces, storage.events
        self._post = post
        self._clock = clock
        self._resource = Resource(attributes=attributes_of(settings.resource))
        self._after = timedelta(seconds=settings.after_seconds + SETTLE_SECONDS)
        self._has_content = settings.has_content
        self._reader = EventReader(self._events)
        self._waiting: deque[Event] = deque()  # read, and too young
        self._position: int | None = None  # that is stored, if all before it is done
        self._failures = 0
        self._retry_at = 0.0

    async def run_once(self) -> None:
        """Send what is due, until nothing is left or the receiver fails; then wait for longer each time."""
        if self._clock.monotonic() < self._retry_at:
            return
        # After a failure, and if another node has done this meanwhile, begin at what is stored.
        known, self._position = self._position, None
        stored = await self._store.get_position()
        if stored is None or stored != known:
            await self._begin_at(stored)
        try:
            while events := await self._take():
                await self._export(events)
        except OutboundError as error:
            self._back_off(str(error))
            return
        if self._failures:
            log.info("spans are exported again")
        self._failures, self._position = 0, await self._store.get_position()

    async def _begin_at(self, position: int | None) -> None:
        """Go on after the position, or for the first time with the runs that end from now on."""
        self._waiting.clear()
        self._reader = EventReader(self._events)
        if position is None:
            await self._reader.skip(partial(self._clock.sleep, SKIP_PAUSE_SECONDS))
            await self._store.set_position(self._reader.settled)
        else:
            self._reader.settled = position

    async def _take(self) -> list[Event]:
        """Return the next events that are old enough."""
        if not self._waiting:
            self._waiting.extend(await self._reader.read())
        latest, taken = self._clock.now() - self._after, list[Event]()
        while self._waiting and self._waiting[0].at <= latest:
            taken.append(self._waiting.popleft())
        return taken

    async def _export(self, events: Sequence[Event]) -> None:
        """Send the spans of the runs that ended by these events, of several small ones together."""
        spans, size = [], 0
        for event in events:
            async for span in self._spans_of(event):
                spans.append(span)
                size += span.ByteSize()
                if len(spans) == MAX_SPANS or size > MAX_BYTES:
                    await self._send(spans)
                    spans, size = [], 0
        if spans:
            await self._send(spans)
        await self._store.set_position(events[-1].id)

    async def _spans_of(self, event: Event) -> AsyncIterator[Span]:
        """Yield the ended spans of a run that is over. Writing them must not hold up the event loop."""
        if event.type is not EventType.RUN_ENDED or event.run_id is None:
            return
        trace, after, is_cut = await self._traces.get(event.run_id), None, True
        self._store.counts["skipped"] += trace is None
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
        scope = ScopeSpans(scope=InstrumentationScope(name="hostsvc"), spans=spans)
        request = ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=self._resource, scope_spans=[scope])]
        )
        answer = await self._post(request.SerializeToString())
        if answer.status >= 300 and answer.status not in UNUSABLE:
            requested = answer.retry_after or timedelta()
            self._retry_at = self._clock.monotonic() + min(requested.total_seconds(), MAX_REQUESTED_SECONDS)
            raise OutboundError(f"The receiver answered {answer.status}.")
        refused = len(spans) if answer.status in UNUSABLE else _rejected(answer)
        if refused:
            log.warning("spans refused by the receiver", status=answer.status, count=refused)
        self._store.counts["refused"] += refused
        self._store.counts["sent"] += len(spans) - refused

    def _back_off(self, reason: str) -> None:
        pause = min(2.0 ** min(self._failures, 10), MAX_PAUSE_SECONDS)
        self._retry_at = max(self._retry_at, self._clock.monotonic() + pause)
        self._failures += 1
        self._store.counts["failures"] += 1
        if self._failures == 1:
            log.warning("spans not exported yet", reason=reason)


def _rejected(answer: OutboundAnswer) -> int:
    """Return how many spans the receiver refuses; none if its answer is no message of the protocol."""
    with suppress(DecodeError):
        return int(ExportTraceServiceResponse.FromString(answer.body).partial_success.rejected_spans)
    return 0
