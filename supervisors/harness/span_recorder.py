"""The span recorder: it collects the spans of a run and stores them while the run goes on."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog

from storage.errors import NotUnique, StorageError, TraceFull
from storage.history.span_usage import usage_of
from storage.history.trace_model import NewSpan, Span
from storage.ids import new_id
from storage.postgres.json_values import to_json
from supervisors.clock import Clock, Timer
from supervisors.failure_log import log_failure
from supervisors.harness.recorded_content import ContentPolicy
from supervisors.ports import SpanStore
from supervisors.text import storable

log = structlog.get_logger()

STORE_INTERVAL_SECONDS = 1.0
OPEN_SECONDS = 0.9  # a step that is open for longer is stored before its end
CUT_SHORT = "cut short: the run was ended"
FULL = "recording stopped: a trace may have at most {} spans (limits.spans_per_trace)"


@dataclass(slots=True, eq=False)
class OpenSpan:
    """A step in progress; `metadata` and `content` use the attribute names of OpenTelemetry GenAI.

    `content` is what a model or a tool is told and answers. `instructions` and `tools` are digests of the
    parts of it that many calls share.
    """

    id: UUID
    name: str
    span_type: str
    parent_id: UUID | None
    started_at: datetime
    began_at: float  # on the monotonic clock
    metadata: dict[str, Any] = field(default_factory=dict)
    content: dict[str, Any] = field(default_factory=dict)
    instructions: bytes | None = None
    tools: bytes | None = None
    error: str = ""


class SpanRecorder:
    """The spans of one run. Spans that could not be stored are kept for the next attempt.

    A step that takes longer than about a second is stored while it is open, and ended later. When the trace
    has as many spans as it may have, one more says so, and later ones are not recorded. Content is recorded
    once `content_policy` is set.
    """

    def __init__(
        self,
        trace_id: UUID,
        store: SpanStore,
        clock: Clock,
        trace_ended_at: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self.content_policy: ContentPolicy | None = None
        self._trace_id = trace_id
        self._trace_ended_at = trace_ended_at  # no span ends later
        self._store = store
        self._clock = clock
        self._open: list[OpenSpan] = []
        self._stored_open: set[UUID] = set()  # the spans that the store has without their end
        self._finished: list[NewSpan] = []
        self._stored_at = clock.monotonic()
        self._next: Timer | None = None  # when spans are stored
        self._writing: asyncio.Task[None] | None = None
        self._is_full = False

    @contextmanager
    def span(
        self, name: str, span_type: str, parent: OpenSpan | None = None, started_at: datetime | None = None
    ) -> Iterator[OpenSpan]:
        """Record the block as a step; an exception that leaves the block becomes the step's error."""
        parent_id = parent.id if parent else None
        started_at = started_at or self._clock.now()
        step = OpenSpan(new_id(), storable(name), span_type, parent_id, started_at, self._clock.monotonic())
        self._open.append(step)
        self._schedule_storing()
        try:
            yield step
        except asyncio.CancelledError:
            step.error = step.error or CUT_SHORT
            raise
        except BaseException as error:
            step.error = step.error or str(error) or type(error).__name__
            raise
        finally:
            self._open.remove(step)
            if not self._is_full or step.id in self._stored_open:
                self._finished.append(self._finished_span(step))
                self._schedule_storing()

    async def flush(self) -> bool:
        """Store the spans that have finished, at the end of the run; return whether all have their ends."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
        if self._next is not None:
            self._next.cancel()
        await self._store_finished()
        return not self._stored_open

    def _finished_span(self, step: OpenSpan) -> NewSpan:
        now = self._clock.now()
        started_at = min(step.started_at, self._trace_ended_at() or step.started_at)
        return self._new_span(step, started_at, max(started_at, min(now, self._trace_ended_at() or now)))

    def _new_span(self, step: OpenSpan, started_at: datetime, ended_at: datetime | None) -> NewSpan:
        span = Span(
            id=step.id,
            trace_id=self._trace_id,
            parent_id=step.parent_id,
            name=step.name,
            span_type=step.span_type,
            started_at=started_at,
            ended_at=ended_at,
            error=storable(step.error),
            **usage_of(step.metadata),
        )
        policy, content = self.content_policy, None
        if policy is not None and step.content:
            content = policy.content(step.content, step.instructions, step.tools)
        return NewSpan(span, to_json(step.metadata).decode(), content)

    def _schedule_storing(self) -> None:
        """Store the spans soon, at most once a second, also while the run waits for something.

        A short run stores all of its spans at its end.
        """
        if self._next is None:
            moment = max(self._stored_at + STORE_INTERVAL_SECONDS, self._clock.monotonic())
            self._next = self._clock.call_at(moment, self._start_storing)

    def _start_storing(self) -> None:
        self._writing = asyncio.ensure_future(self._store_and_reschedule())

    async def _store_and_reschedule(self) -> None:
        await self._store_finished()
        await self._store_open()
        self._next = None
        if self._finished or self._unstored_open():
            self._schedule_storing()

    async def _store_finished(self) -> None:
        """Store the finished spans. A failure is only logged: tracing never stops a run."""
        self._stored_at = self._clock.monotonic()
        spans, self._finished = self._finished, []
        try:
            await self._end(spans)
            await self._insert([new for new in spans if new.span.id not in self._stored_open])
        except StorageError as error:
            log_failure(log, "spans not stored yet", error, count=len(spans))
            self._finished = spans + self._finished
            return
        self._stored_open.difference_update(new.span.id for new in spans)

    async def _store_open(self) -> None:
        """Store the steps that have been open for long. Those of them that end before are ended later."""
        latest = self._clock.monotonic() - OPEN_SECONDS
        steps = [step for step in self._unstored_open() if step.began_at <= latest]
        self._stored_open.update(step.id for step in steps)  # first: they may end during the write
        try:
            await self._insert([self._new_span(step, step.started_at, None) for step in steps])
        except StorageError as error:
            log_failure(log, "open spans not stored yet", error, count=len(steps))
            self._stored_open.difference_update(step.id for step in steps)

    def _unstored_open(self) -> list[OpenSpan]:
        if self._is_full:
            return []
        return [step for step in self._open if step.id not in self._stored_open]

    async def _end(self, spans: list[NewSpan]) -> None:
        ended = [new for new in spans if new.span.id in self._stored_open]
        if ended:
            await self._store.end_spans(ended)

    async def _insert(self, spans: list[NewSpan]) -> None:
        """Insert the spans; end those that an earlier attempt had stored although it failed."""
        if not spans or self._is_full:
            return
        try:
            await self._store.insert_spans(spans)
        except TraceFull as error:
            self._is_full = True
            self._stored_open.difference_update(new.span.id for new in spans)
            await self._store_last(spans, error)
        except NotUnique:
            known = await self._store.list_known_span_ids([new.span.id for new in spans])
            await self._store.end_spans([new for new in spans if new.span.id in known])
            await self._store.insert_spans([new for new in spans if new.span.id not in known])

    async def _store_last(self, spans: list[NewSpan], full: TraceFull) -> None:
        """Store the spans that still fit, and a note that there are no further ones."""
        now = self._clock.now()
        note = OpenSpan(new_id(), "recording stopped", "other", None, now, self._clock.monotonic())
        note.error = FULL.format(full.max_spans)
        fitting = spans[: full.max_spans - full.stored]
        try:
            with suppress(TraceFull):  # clients may have added spans since
                await self._store.insert_spans(fitting)
                self._stored_open.update(new.span.id for new in fitting if new.span.ended_at is None)
            await self._store.insert_note(self._finished_span(note))
        except StorageError as error:
            log.warning("spans not stored: the trace is full", count=len(spans), error=str(error))
