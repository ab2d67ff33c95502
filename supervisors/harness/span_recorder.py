"""The span recorder: it collects the spans of a run and stores them while the run goes on."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog

from storage.errors import StorageError, TraceFull
from storage.ids import new_id
from storage.model import NewSpan, Span
from storage.postgres.json_values import to_json
from supervisors.clock import Clock, Timer
from supervisors.failure_log import log_failure
from supervisors.ports import SpanStore
from supervisors.text import storable

log = structlog.get_logger()

STORE_INTERVAL_SECONDS = 1.0
CUT_SHORT = "cut short: the run was ended"
FULL = "recording stopped: a trace may have at most {} spans (limits.spans_per_trace)"


@dataclass(slots=True)
class OpenSpan:
    """A step in progress; `metadata` uses the attribute names of OpenTelemetry GenAI."""

    id: UUID
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str = ""


class SpanRecorder:
    """The spans of one run. Spans that could not be stored are kept for the next attempt.

    When the trace has as many spans as it may have, one more says so, and later ones are not recorded.
    """

    def __init__(
        self,
        trace_id: UUID,
        store: SpanStore,
        clock: Clock,
        trace_ended_at: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self._trace_id = trace_id
        self._trace_ended_at = trace_ended_at  # no span ends later
        self._store = store
        self._clock = clock
        self._finished: list[NewSpan] = []
        self._stored_at = clock.monotonic()
        self._next: Timer | None = None  # when the finished spans are stored
        self._writing: asyncio.Task[None] | None = None
        self._is_full = False

    @contextmanager
    def span(
        self, name: str, span_type: str, parent: OpenSpan | None = None, started_at: datetime | None = None
    ) -> Iterator[OpenSpan]:
        """Record the block as a step; an exception that leaves the block becomes the step's error."""
        started_at = started_at or self._clock.now()
        step = OpenSpan(new_id())
        try:
            yield step
        except asyncio.CancelledError:
            step.error = step.error or CUT_SHORT
            raise
        except BaseException as error:
            step.error = step.error or str(error) or type(error).__name__
            raise
        finally:
            if not self._is_full:
                self._finished.append(self._new_span(name, span_type, step, parent, started_at))
                self._schedule_storing()

    def _new_span(
        self, name: str, span_type: str, step: OpenSpan, parent: OpenSpan | None, started_at: datetime
    ) -> NewSpan:
        now = self._clock.now()
        started_at = min(started_at, self._trace_ended_at() or started_at)
        span = Span(
            id=step.id,
            trace_id=self._trace_id,
            parent_id=parent.id if parent else None,
            name=storable(name),
            span_type=span_type,
            started_at=started_at,
            ended_at=max(started_at, min(now, self._trace_ended_at() or now)),
            error=storable(step.error),
        )
        return NewSpan(span, to_json(step.metadata).decode())

    async def flush(self) -> None:
        """Store the spans that have finished, at the end of the run."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
        if self._next is not None:
            self._next.cancel()
        await self._store_finished()

    def _schedule_storing(self) -> None:
        """Store the finished spans soon, at most once a second, also while the run waits for something.

        A short run stores all of its spans at its end.
        """
        if self._next is None:
            moment = max(self._stored_at + STORE_INTERVAL_SECONDS, self._clock.monotonic())
            self._next = self._clock.call_at(moment, self._start_storing)

    def _start_storing(self) -> None:
        self._writing = asyncio.ensure_future(self._store_and_reschedule())

    async def _store_and_reschedule(self) -> None:
        await self._store_finished()
        self._next = None
        if self._finished:
            self._schedule_storing()

    async def _store_finished(self) -> None:
        """Store the spans. A failure is only logged: tracing never stops a run."""
        self._stored_at = self._clock.monotonic()
        spans, self._finished = self._finished, []
        try:
            await self._store.insert_spans(spans)
        except TraceFull as error:
            self._is_full = True
            self._finished = []
            await self._store_last(spans, error)
        except StorageError as error:
            log_failure(log, "spans not stored yet", error, count=len(spans))
            self._finished = spans + self._finished

    async def _store_last(self, spans: list[NewSpan], full: TraceFull) -> None:
        """Store the spans that still fit, and a note that there are no further ones."""
        step = OpenSpan(new_id(), error=FULL.format(full.max_spans))
        note = self._new_span("recording stopped", "other", step, None, self._clock.now())
        try:
            with suppress(TraceFull):  # clients may have added spans since
                await self._store.insert_spans(spans[: full.max_spans - full.stored])
            await self._store.insert_note(note)
        except StorageError as error:
            log.warning("spans not stored: the trace is full", count=len(spans), error=str(error))
