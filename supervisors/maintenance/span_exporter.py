"""The export of spans: those of each run that has ended go to a receiver of OpenTelemetry, at least once.

The log of events says which runs have ended. How far it has been read is stored after the receiver has taken
the spans. While it is away, nothing is kept for it: what retention removes until then is only counted.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import takewhile
from uuid import UUID

import structlog
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages

from storage.events.model import EventType
from storage.events.reader import EventReader
from storage.history.traces import TraceOwner
from storage.storage import Storage
from supervisors.clock import Clock
from supervisors.otlp import halves_of, write_spans
from supervisors.outbound import OutboundAnswer, OutboundError
from supervisors.text import excerpt

log = structlog.get_logger(__name__)

MAX_SPANS, MAX_BYTES = 100, 524_288  # of a request; the bytes are those of the rows
REST_SHARE = 0.5  # of the time that a page took, before the next one, so that others get PostgreSQL and cores
ROUND_SECONDS = 30.0  # after which it returns, so that what it has counted is seen
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
        """Send what is due, for a while or until the receiver fails; then wait for longer each time."""
        began = self.clock.monotonic()
        if began < self._retry_at:
            return
        reader = EventReader(self.storage.events)
        position = await self.storage.instance.spans_exported_until()
        if position is None:  # export the runs that end from now on
            await reader.skip(partial(self.clock.sleep, BLOCKED_SECONDS))
            await self.storage.instance.set_spans_exported(reader.settled)
            return
        reader.settled = position
        try:
            while await self._export_next(reader) and self.clock.monotonic() < began + ROUND_SECONDS:
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
        ended = {
            event.run_id: event.id for event in due if event.type is EventType.RUN_ENDED and event.run_id
        }
        owners = await self.storage.traces.list_owners(ended.keys())
        await self._export([owners[run_id] for run_id in ended if run_id in owners], ended)
        if due:
            await self.storage.instance.set_spans_exported(due[-1].id)
        self.storage.instance.span_exports["skipped"] += len(ended) - len(owners)
        if not events and reader.is_blocked:
            await self.clock.sleep(BLOCKED_SECONDS)
        return len(due) == len(events) and (bool(events) or reader.is_blocked)

    async def _export(self, runs: Sequence[TraceOwner], ended: Mapping[UUID, int]) -> None:
        """Send the spans of the runs, whose events `ended` has, and store after each page how far it is."""
        after = None
        while runs:
            began_at = self.clock.monotonic()
            read = {run.id: run for run in runs[:MAX_SPANS]}
            page = await self.storage.traces.list_expanded_spans(
                list(read.values()), after, MAX_SPANS, MAX_BYTES, has_content=self.has_content
            )
            done, after = len(read), None
            if page.is_cut:
                last = page[-1].span
                done, after = list(read).index(last.trace_id), (last.started_at, last.id)
            runs = runs[done:]
            if spans := [expanded for expanded in page if expanded.span.ended_at is not None]:
                request = write_spans(self.resource, read, spans, has_content=self.has_content)
                await self._send(request, len(spans))
            if runs:
                await self.storage.instance.set_spans_exported(ended[runs[0].id] - 1)
                await self.clock.sleep((self.clock.monotonic() - began_at) * REST_SHARE)

    async def _send(self, batch: bytes, count: int) -> None:
        """Send a batch of so many spans, by halves if it is too large.

        Raise OutboundError if it must be sent again.
        """
        answer = await self.post(batch)
        if answer.status == TOO_LARGE and count > 1:
            for half, spans in halves_of(batch):
                await self._send(half, spans)
            return
        is_refused = answer.status in UNUSABLE
        if answer.status >= 300 and not is_refused:
            requested = answer.retry_after or timedelta()
            self._retry_at = self.clock.monotonic() + min(requested.total_seconds(), MAX_REQUESTED_SECONDS)
            raise OutboundError(f"The receiver answered {answer.status}.")
        refused, words = (count, answer.body.decode(errors="replace")) if is_refused else (0, "")
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
        self.storage.instance.span_exports.update(refused=refused, sent=count - refused)
