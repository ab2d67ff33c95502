"""Inserts of spans: shared statements, long ones alone, and the limit of each trace."""

import asyncio
from uuid import UUID

import pytest

from storage.errors import NotUnique, TraceFull
from storage.history.spans import MAX_SHARED_CHARACTERS
from storage.history.traces import Traces
from storage.ids import new_id
from storage.postgres.pool import Pool
from tests.storage.factories import new_span, pairs, stored_spans


@pytest.fixture
def traces(pool: Pool) -> Traces:
    return Traces(pool, max_spans=10)


async def test_concurrent_span_inserts_are_all_stored(traces: Traces, pool: Pool) -> None:
    trace_ids = [new_id() for _ in range(40)]

    await asyncio.gather(
        *(traces.insert_spans([new_span(trace_id, {"n": n}) for n in range(7)]) for trace_id in trace_ids),
        traces.insert_spans([]),
    )

    counts = await pairs(pool, "SELECT trace_id, count(*) FROM span GROUP BY trace_id")
    assert counts == dict.fromkeys(trace_ids, 7)
    assert await pool.fetchval("SELECT count(*) FROM span_metadata") == 280


async def test_long_spans_are_written_in_their_own_statement(traces: Traces, pool: Pool) -> None:
    short, long = {"text": "x"}, {"text": "x" * MAX_SHARED_CHARACTERS}

    await asyncio.gather(
        *(traces.insert_spans([new_span(new_id(), metadata)]) for metadata in (short, long, short, long))
    )

    writes = await pool.fetch("SELECT xmin::text, count(*) FROM span GROUP BY xmin ORDER BY count")
    assert [write["count"] for write in writes] == [1, 1, 2]


async def test_insert_of_existing_span_fails_alone(traces: Traces, pool: Pool) -> None:
    trace_id = new_id()
    stored, fresh = new_span(trace_id), new_span(trace_id)
    await traces.insert_spans([stored])

    first, second = await asyncio.gather(
        traces.insert_spans([stored]), traces.insert_spans([fresh]), return_exceptions=True
    )

    assert isinstance(first, NotUnique)
    assert second is None
    assert {span.id for span in await stored_spans(pool, trace_id)} == {stored.span.id, fresh.span.id}


async def test_insert_of_existing_span_with_metadata_names_the_id(traces: Traces) -> None:
    stored = new_span(new_id(), {"n": 1})
    await traces.insert_spans([stored])

    with pytest.raises(NotUnique) as refused:
        await traces.insert_spans([stored])

    assert refused.value.fields == ("id",)


def metadata_of_length(characters: int) -> dict[str, str]:
    return {"text": "x" * characters}


@pytest.mark.parametrize("characters", [1, MAX_SHARED_CHARACTERS])
async def test_full_trace_takes_all_of_an_insert_or_nothing(
    traces: Traces, pool: Pool, characters: int
) -> None:
    trace_id = new_id()
    await traces.insert_spans([new_span(trace_id) for _ in range(8)])

    with pytest.raises(TraceFull) as refused:
        await traces.insert_spans([new_span(trace_id, metadata_of_length(characters)) for _ in range(3)])
    await traces.insert_spans([new_span(trace_id, metadata_of_length(characters)) for _ in range(2)])

    assert (refused.value.trace_id, refused.value.max_spans, refused.value.stored) == (trace_id, 10, 8)
    assert len(await stored_spans(pool, trace_id)) == await traces.count_spans(trace_id) == 10


async def test_insert_into_several_traces_stores_all_or_nothing(traces: Traces, pool: Pool) -> None:
    full, empty = new_id(), new_id()
    await traces.insert_spans([new_span(full) for _ in range(10)])

    with pytest.raises(TraceFull):
        await traces.insert_spans([new_span(empty), new_span(full)])

    assert await stored_spans(pool, empty) == []
    assert await pairs(pool, "SELECT trace_id, span_count FROM trace_size") == {full: 10}


async def test_concurrent_inserts_fill_a_trace_but_not_beyond(traces: Traces, pool: Pool) -> None:
    trace_id, other = new_id(), new_id()

    results = await asyncio.gather(
        *(traces.insert_spans([new_span(trace_id) for _ in range(3)]) for _ in range(7)),
        traces.insert_spans([new_span(other)]),
        return_exceptions=True,
    )

    assert [type(result) for result in results].count(TraceFull) == 4
    assert results[-1] is None
    counts: dict[UUID, int] = await pairs(pool, "SELECT trace_id, count(*) FROM span GROUP BY trace_id")
    assert counts == {trace_id: 9, other: 1}
    assert await pairs(pool, "SELECT trace_id, span_count FROM trace_size") == counts


async def test_note_is_stored_in_a_full_trace(traces: Traces) -> None:
    trace_id = new_id()
    await traces.insert_spans([new_span(trace_id) for _ in range(10)])

    await traces.insert_note(new_span(trace_id))
    with pytest.raises(TraceFull):
        await traces.insert_note(new_span(trace_id))

    assert await traces.count_spans(trace_id) == 11
