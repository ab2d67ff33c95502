"""The span recorder stores spans while the run goes on."""

import asyncio
from collections.abc import Collection, Sequence
from uuid import UUID

from storage.errors import NoAnswer
from storage.history.trace_model import NewSpan
from storage.history.traces import Traces
from storage.ids import new_id
from storage.postgres.pool import Pool
from supervisors.harness.recorded_content import ContentPolicy
from supervisors.harness.span_recorder import SpanRecorder
from tests.storage.factories import stored_spans
from tests.supervisors.held_clock import HeldClock


async def stored(traces: Traces, trace_id: UUID) -> list[str]:
    return [span.name for span in await traces.list_spans(trace_id)]


class ObservedStore:
    """A store of spans that signals and counts each write, and loses the answers on demand."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._wrote = asyncio.Event()
        self.loses_answers = False
        self.writes: list[int] = []  # the number of spans of each

    async def insert_spans(self, spans: Sequence[NewSpan]) -> None:
        try:
            await self._traces.insert_spans(spans)
        finally:
            self._note(spans)

    async def end_spans(self, spans: Sequence[NewSpan]) -> None:
        await self._traces.end_spans(spans)
        self._note(spans)

    def _note(self, spans: Sequence[NewSpan]) -> None:
        self.writes.append(len(spans))
        self._wrote.set()
        if self.loses_answers:
            raise NoAnswer("the connection was lost")

    async def list_known_span_ids(self, span_ids: Collection[UUID]) -> set[UUID]:
        return await self._traces.list_known_span_ids(span_ids)

    async def insert_note(self, note: NewSpan) -> None:
        await self._traces.insert_note(note)

    async def wait_for_write(self) -> None:
        async with asyncio.timeout(10):
            await self._wrote.wait()
        self._wrote.clear()


async def test_spans_are_stored_during_the_run_once_a_second(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool), HeldClock(), new_id()
    store = ObservedStore(traces)
    recorder = SpanRecorder(trace_id, store, clock)

    with recorder.span("first", "tool"):
        pass
    clock.advance(0.9)
    assert await stored(traces, trace_id) == []
    clock.advance(0.1)
    await store.wait_for_write()
    assert await stored(traces, trace_id) == ["first"]

    with recorder.span("second", "tool"):
        pass
    clock.advance(0.9)
    assert await stored(traces, trace_id) == ["first"]

    await recorder.flush()
    assert sorted(await stored(traces, trace_id)) == ["first", "second"]
    assert clock.timers() == []
    await traces.close()


async def test_recording_stops_with_one_note_when_the_trace_is_full(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool, max_spans=3), HeldClock(), new_id()
    recorder = SpanRecorder(trace_id, traces, clock)

    for _ in range(2):
        for number in range(5):
            with recorder.span(f"step {number}", "tool"):
                pass
        await recorder.flush()

    spans = await stored_spans(pool, trace_id)
    assert sorted(span.name for span in spans) == ["recording stopped", "step 0", "step 1", "step 2"]
    assert [span.error for span in spans if span.error] == [
        "recording stopped: a trace may have at most 3 spans (limits.spans_per_trace)"
    ]
    await traces.close()


async def test_step_is_stored_open_after_a_second_and_ended(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool), HeldClock(), new_id()
    store = ObservedStore(traces)
    recorder = SpanRecorder(trace_id, store, clock)

    with recorder.span("invoke", "agent") as root, recorder.span("chat", "llm", root) as chat:
        chat.metadata["asked"] = True
        clock.advance(1.0)
        await store.wait_for_write()
        waiting = await stored_spans(pool, trace_id)
        chat.metadata["answered"] = True
        clock.advance(30.0)
    await recorder.flush()

    assert sorted((span.name, span.ended_at) for span in waiting) == [("chat", None), ("invoke", None)]
    ended = await stored_spans(pool, trace_id)
    assert {span.id: span.ended_at for span in ended} == {root.id: clock.now(), chat.id: clock.now()}
    metadata = await pool.fetchval("SELECT metadata FROM span_metadata")
    assert metadata == {"asked": True, "answered": True}
    await traces.close()


async def test_quick_steps_are_stored_once_at_the_end(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool), HeldClock(), new_id()
    store = ObservedStore(traces)
    recorder = SpanRecorder(trace_id, store, clock)

    for _ in range(3):
        with recorder.span("step", "tool"):
            clock.advance(0.3)
    await recorder.flush()

    assert store.writes == [3]
    assert clock.timers() == []
    await traces.close()


async def test_step_that_began_just_now_is_not_stored_open(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool), HeldClock(), new_id()
    store = ObservedStore(traces)
    recorder = SpanRecorder(trace_id, store, clock)

    with recorder.span("first", "tool"):
        clock.advance(0.5)
    with recorder.span("second", "tool"):
        clock.advance(0.5)
        await store.wait_for_write()
        assert await stored(traces, trace_id) == ["first"]
        clock.advance(1.0)
        await store.wait_for_write()
        assert await stored(traces, trace_id) == ["first", "second"]
    await recorder.flush()
    await traces.close()


async def test_spans_of_an_insert_without_answer_are_stored_once(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool), HeldClock(), new_id()
    store = ObservedStore(traces)
    recorder = SpanRecorder(trace_id, store, clock)

    with recorder.span("invoke", "agent"):
        store.loses_answers = True
        with recorder.span("first", "tool"):
            clock.advance(1.0)
            await store.wait_for_write()
        clock.advance(1.0)
        await store.wait_for_write()
        store.loses_answers = False
        with recorder.span("second", "tool"):
            pass
    assert await recorder.flush()

    spans = await stored_spans(pool, trace_id)
    assert sorted(span.name for span in spans) == ["first", "invoke", "second"]
    assert all(span.ended_at for span in spans)
    await traces.close()


async def test_flush_tells_that_the_end_of_a_span_is_missing(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool), HeldClock(), new_id()
    store = ObservedStore(traces)
    recorder = SpanRecorder(trace_id, store, clock)

    with recorder.span("chat", "llm"):
        clock.advance(1.0)
        await store.wait_for_write()
        store.loses_answers = True

    assert not await recorder.flush()
    await traces.close()


async def test_open_step_of_a_full_trace_is_still_ended(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool, max_spans=2), HeldClock(), new_id()
    store = ObservedStore(traces)
    recorder = SpanRecorder(trace_id, store, clock)

    with recorder.span("chat", "llm"):
        clock.advance(1.0)
        await store.wait_for_write()
        for number in range(5):
            with recorder.span(f"step {number}", "tool"):
                pass
        clock.advance(1.0)
        await store.wait_for_write()
    assert await recorder.flush()

    spans = await stored_spans(pool, trace_id)
    assert sorted(span.name for span in spans) == ["chat", "recording stopped", "step 0"]
    assert all(span.ended_at for span in spans)
    await traces.close()


async def test_content_is_recorded_by_its_policy_only(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool), HeldClock(), new_id()
    recorder = SpanRecorder(trace_id, traces, clock)
    for policy in (None, ContentPolicy(None, 2**20)):
        recorder.content_policy = policy
        with recorder.span("chat", "llm") as chat:
            chat.content["told"] = "Hello!"
    await recorder.flush()

    rows = await pool.fetch("SELECT span_id, content FROM span_metadata")
    assert [(row["span_id"], row["content"]) for row in rows] == [(chat.id, {"told": "Hello!"})]
    await traces.close()
