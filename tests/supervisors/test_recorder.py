"""The record of a run while it goes on."""

from uuid import UUID

from storage.ids import new_id
from storage.pool import Pool
from storage.traces import Traces
from supervisors.recorder import Recorder
from tests.supervisors.held_clock import HeldClock


async def stored(traces: Traces, trace_id: UUID) -> list[str]:
    return [span.name for span in await traces.spans(trace_id)]


async def test_a_long_runs_spans_are_stored_while_it_goes_on_and_at_most_once_a_second(pool: Pool) -> None:
    traces, clock, trace_id = Traces(pool), HeldClock(), new_id()
    recorder = Recorder(trace_id, traces, clock)

    with recorder.span("first", "tool"):
        pass
    await recorder.keep_up()
    assert await stored(traces, trace_id) == []

    clock.advance(1)
    await recorder.keep_up()
    assert await stored(traces, trace_id) == ["first"]

    with recorder.span("second", "tool"):
        pass
    await recorder.keep_up()
    assert await stored(traces, trace_id) == ["first"]

    await recorder.flush()
    assert sorted(await stored(traces, trace_id)) == ["first", "second"]
    await traces.close()
