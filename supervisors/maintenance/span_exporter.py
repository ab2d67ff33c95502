"""The export of spans: those of each run that has ended go to a receiver of OpenTelemetry, at least once.

The log of events says which runs have ended. How far it has been read is stored after the receiver has taken
the spans. While it is away, nothing is kept for it: what retention removes until then is only counted.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import Any

import structlog
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from storage.events.model import EventType
from storage.events.reader import EventReader
from storage.history.traces import TraceOwner
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.otlp import attributes_of, write_span
from supervisors.outbound import OutboundAnswer, OutboundError
from supervisors.text import excerpt

log = structlog.get_logger(__name__)

MAX_SPANS, MAX_BYTES = 500, 524_288  # of a page; a batch is sent when it has as much
SLICE = 10  # spans that are written before others have their turn
SETTLE = timedelta(seconds=5)  # beside the grace period, in which a run that sleeps may still record steps
MAX_PAUSE_SECONDS = 60.0  # between two attempts, unless the receiver asks for more
MAX_REQUESTED_SECONDS = 3600.0
BLOCKED_SECONDS = 0.1  # between two reads while events wait for a transaction before them
UNUSABLE = frozenset({400, 413, 422})  # answers to a batch that would not be taken the next time either
TOO_LARGE = 413  # though parts of it may be taken
MAX_WORDS = 200  # characters of the receiver's that the log shows

Post = Callable[[bytes], Awaitable[OutboundAnswer]]
"""Sends a request to the receiver. Raises OutboundError."""


@dataclass(slots=True)
class SpanExporter:
    """Sends the spans of ended runs, this long `after` their ends; prompts and answers if `has_content`."""

    storage: Storage
    post: Post
    clock: Clock
    resource: Mapping[str, str]
    after: timedelta
    has_content: bool
    _failures: int = 0
    _retry_at: float = 0.0

    async def run_once(self) -> None:
        """Send what is due, until nothing is left or the receiver fails; then wait for longer each time."""
        if self.clock.monotonic() < self._retry_at:
            return
        reader, position = (
            EventReader(self.storage.events),
            await self.storage.instance.spans_exported_until(),
        )
        if position is None:  # export the runs that end from now on
            await reader.skip(partial(self.clock.sleep, BLOCKED_SECONDS))
            await self.storage.instance.set_spans_exported(reader.settled)
            return
        reader.settled = position
        try:
            while await self._export_next(reader):
                pass
            self._failures = 0
        except OutboundError as error:
            pause = min(2.0 ** min(self._failures, 10), MAX_PAUSE_SECONDS)
            self._retry_at = max(self._retry_at, self.clock.monotonic() + pause)
            if self._failures == 0:
                log.warning("spans not exported yet", reason=str(error))
            self._failures += 1
            self.storage.instance.span_exports["failed"] += 1

    async def _export_next(self, reader: EventReader) -> bool:
        """Send the spans of the runs that ended by the next events. Return whether to go on."""
        events, latest = await reader.read(), self.clock.now() - self.after - SETTLE
        due = list(takewhile(lambda event: event.at <= latest, events))
        ended = [event.run_id for event in due if event.type is EventType.RUN_ENDED and event.run_id]
        traces = await self.storage.traces.list_owners(ended)
        batch, size = list[Span](), 0
        for event in due:
            if event.type is EventType.RUN_ENDED and event.run_id in traces:
                size += await self._add_run(traces[event.run_id], batch)
            if event is due[-1] or len(batch) >= MAX_SPANS or size > MAX_BYTES:
                await self._send(batch)
                size = 0
                await self.storage.instance.set_spans_exported(event.id)
        self.storage.instance.span_exports["skipped"] += len(ended) - len(traces)
        if not events and reader.is_blocked:
            await self.clock.sleep(BLOCKED_SECONDS)
        return len(due) == len(events) and (bool(events) or reader.is_blocked)

    async def _add_run(self, trace: TraceOwner, batch: list[Span]) -> int:
        """Add the spans of a run in slices, so that others have their turn. Return how many bytes these have.

        Of a long run only the last page is added: those before are sent.
        """
        after, is_cut, size = None, True, 0
        while is_cut:
            page = await self.storage.traces.list_expanded_spans(trace, after, MAX_SPANS, MAX_BYTES)
            for number, expanded in enumerate(page, 1):
                if expanded.span.ended_at is not None:
                    batch.append(write_span(trace, expanded, has_content=self.has_content))
                if number % SLICE == 0:
                    await self.clock.sleep(0)
                after = (expanded.span.started_at, expanded.span.id)
            is_cut, size = page.is_cut, sum(span.ByteSize() for span in batch[-len(page) :])
            if is_cut:
                await self._send(batch)
        return size

    async def _send(self, batch: list[Span]) -> None:
        """Send the batch, and empty it. Raise OutboundError if it must be sent again."""
        spans, batch[:] = batch[:], ()
        if spans:
            await self._post(spans)

    async def _post(self, spans: list[Span]) -> None:
        """Send the spans in one request, or by halves if that is too large for the receiver."""
        together: Any = {
            "resource": {"attributes": attributes_of(self.resource)},
            "scope_spans": [{"spans": spans}],
        }
        request = messages.ExportTraceServiceRequest(resource_spans=[together])
        answer = await self.post(request.SerializeToString())
        if answer.status == TOO_LARGE and len(spans) > 1:
            middle = len(spans) // 2
            await self._post(spans[:middle])
            await self._post(spans[middle:])
            return
        is_refused = answer.status in UNUSABLE
        if answer.status >= 300 and not is_refused:
            requested = answer.retry_after or timedelta()
            self._retry_at = self.clock.monotonic() + min(requested.total_seconds(), MAX_REQUESTED_SECONDS)
            raise OutboundError(f"The receiver answered {answer.status}.")
        refused, words = (len(spans), answer.body.decode(errors="replace")) if is_refused else (0, "")
        with suppress(DecodeError):  # then the status alone says whether they were taken
            told = messages.ExportTraceServiceResponse.FromString(b"" if is_refused else answer.body)
            refused += told.partial_success.rejected_spans
            words += told.partial_success.error_message
        if refused:
            log.warning(
                "spans refused by the receiver",
                status=answer.status,
                count=refused,
                reason=excerpt(words, MAX_WORDS),
            )
        self.storage.instance.span_exports.update(refused=refused, sent=len(spans) - refused)
