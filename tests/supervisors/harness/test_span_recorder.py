"""The span recorder stores spans while the run goes on."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from storage.history.traces import Traces
from storage.ids import new_id
from storage.model import NewSpan
from storage.postgres.pool import Pool
from supervisors.harness.span_recorder import SpanRecorder
from tests.storage.factories import stored_spans
from tests.supervisors.held_clock import HeldClock


async def stored(traces: Traces, trace_id: UUID) -> list[str]:
    return [span.name for span in await traces.list_spans(trace_id)]


class ObservedStore:
    """A store of spans that signals each write."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._wrote = asyncio.Event()

    async def insert_spans(self, spans: Sequence[NewSpan]) -> None:
        await self._traces.insert_spans(spans)
        self._wrote.set()

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
