"""PostgreSQL writes whole traces with the bytes that Python writes for a page of their spans."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.history.trace_model import Span, Trace
from storage.history.traces import Traces
from storage.history.whole_traces import FEW_SPANS
from storage.ids import new_id
from storage.postgres.pool import Pool
from storage.postgres.rows import to_row
from tests.web.test_listed_items import (
    EVERY_CHARACTER,
    FIRST_MOMENT,
    LAST_MOMENT,
    MOMENTS,
    STORED_JSON,
    json_texts,
    texts,
)
from web.json import to_json
from web.schemas.spans import serialize_span
from web.schemas.traces import SPAN_OF_TRACE, WHOLE_TRACE, serialize_full_trace

INSERT_TRACE = """
INSERT INTO trace (id, organization_id, agent_id, name, started_at, ended_at, error, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::json)
"""
INSERT_SPAN = """
INSERT INTO span (id, trace_id, parent_id, name, span_type, started_at, ended_at, error,
                  input_tokens, output_tokens, cached_tokens, cost_usd)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
"""
INSERT_SIZE = "INSERT INTO trace_size (trace_id, span_count) VALUES ($1, $2)"

START = datetime(2026, 11, 21, 9, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
COSTS = (0.0, -0.0, 1.0, 2.5, 1e-5, 0.00012345, 1e14, 1e15, 2.0**53, 1e22, 5e-324, math.inf, math.nan)

moments = st.datetimes(FIRST_MOMENT, LAST_MOMENT, timezones=st.just(UTC)) | st.sampled_from(MOMENTS)
counts = st.none() | st.integers(0, 2**63 - 1)
trace_ids = st.shared(st.uuids(), key="trace")
traces = st.builds(
    Trace, trace_ids, st.uuids(), st.uuids(), texts, moments, st.none() | moments, texts, json_texts
)
spans = st.builds(
    Span,
    id=st.uuids(),
    trace_id=trace_ids,
    parent_id=st.none() | st.uuids(),
    name=texts,
    span_type=texts,
    started_at=moments,
    ended_at=st.none() | moments,
    error=texts,
    input_tokens=counts,
    output_tokens=counts,
    cached_tokens=counts,
    cost_usd=st.none() | st.floats() | st.sampled_from(COSTS),
)


def trace_with(**columns: Any) -> Trace:
    ordinary = {"name": "Visit", "started_at": START, "ended_at": None, "error": "", "metadata": "{}"}
    return Trace(**{"id": new_id(), "organization_id": new_id(), "agent_id": new_id(), **ordinary, **columns})


def span_with(trace: Trace, **columns: Any) -> Span:
    ordinary = {"parent_id": None, "name": "chat", "span_type": "llm", "started_at": START, "error": ""}
    return Span(**{"id": new_id(), "trace_id": trace.id, "ended_at": None, **ordinary, **columns})


async def store(pool: Pool, trace: Trace, spans: list[Span]) -> None:
    """Store a trace, whose metadata is the text of a JSON value."""
    await pool.execute(INSERT_TRACE, *to_row(INSERT_TRACE, trace))
    for span in spans:
        await pool.execute(INSERT_SPAN, *to_row(INSERT_SPAN, span))
    if spans:
        await pool.execute(INSERT_SIZE, trace.id, len(spans))


async def serialized(traces: Traces, trace_id: UUID) -> bytes:
    """Return the first page of the trace as Python writes it."""
    trace = await traces.get(trace_id)
    assert trace is not None
    listed = [serialize_span(span) for span in await traces.list_spans(trace_id)]
    return to_json(serialize_full_trace(trace, listed, await traces.count_spans(trace_id)))


async def require_same_bytes(pool: Pool, trace: Trace, spans: list[Span]) -> None:
    await store(pool, trace, spans)
    traces = Traces(pool)
    reads = traces.whole.as_json(WHOLE_TRACE, SPAN_OF_TRACE)
    row = await reads.get_short(trace.id)
    if row is not None and not row.text:  # its metadata is long
        row = await reads.get_alone(trace.id)
    assert row is not None
    assert (row.organization_id, row.agent_id) == (trace.organization_id, trace.agent_id)
    assert row.text == await serialized(traces, trace.id)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(trace=traces, spans=st.lists(spans, max_size=4, unique_by=lambda span: span.id))
async def test_whole_trace_has_the_bytes_of_python(pool: Pool, trace: Trace, spans: list[Span]) -> None:
    await pool.execute("TRUNCATE trace, span, trace_size")
    await require_same_bytes(pool, trace, spans)


async def test_special_values_of_traces_are_written_as_by_python(pool: Pool) -> None:
    special: dict[str, tuple[Any, ...]] = {
        "name": (EVERY_CHARACTER,),
        "error": ("", "\x01", EVERY_CHARACTER),
        "metadata": STORED_JSON,
        "started_at": MOMENTS,
        "ended_at": (*MOMENTS, None),
    }
    for column, values in special.items():
        for value in values:
            trace = trace_with(**{column: value})
            await require_same_bytes(pool, trace, [span_with(trace, cost_usd=0.5)])


async def test_special_values_of_spans_are_written_as_by_python(pool: Pool) -> None:
    moments = (*MOMENTS, START + 0.999 * MILLISECOND, START - 0.001 * MILLISECOND)
    special: dict[str, tuple[Any, ...]] = {
        "name": (EVERY_CHARACTER,),
        "error": ("", " ", "\x01"),
        "cost_usd": COSTS,
        "input_tokens": (0, 2**53, None),
        "started_at": moments,
        "ended_at": moments,
    }
    trace = trace_with()
    spans = [
        span_with(trace, **{column: value, "parent_id": trace.id})
        for column, values in special.items()
        for value in values
    ]
    spans += [span_with(trace, started_at=start, ended_at=end) for start in moments for end in moments]
    for first in range(0, len(spans), FEW_SPANS):
        await pool.execute("TRUNCATE trace, span, trace_size")
        await require_same_bytes(pool, trace, spans[first : first + FEW_SPANS])


@pytest.mark.parametrize("count", [0, 1, FEW_SPANS])
async def test_whole_trace_shows_all_spans_in_order(pool: Pool, count: int) -> None:
    trace = trace_with()
    spans = [span_with(trace, name=f"s{n}", started_at=START - n % 3 * MILLISECOND) for n in range(count)]
    await require_same_bytes(pool, trace, spans)


@pytest.mark.parametrize("times", ["'-infinity', ended_at = now()", "'4713-01-01 BC', ended_at = 'infinity'"])
async def test_span_with_infinite_time_fails_no_read(pool: Pool, times: str) -> None:
    span = await read_span_with(pool, times)
    assert span["duration_ms"] is None


async def test_span_with_times_far_apart_fails_no_read(pool: Pool) -> None:
    span = await read_span_with(pool, "'4713-01-01 BC', ended_at = '294276-12-31'")
    assert span["duration_ms"] > 299_000 * 365 * 24 * 3600 * 1000


async def read_span_with(pool: Pool, times: str) -> Any:
    """Read a trace with one span, whose times another program has set."""
    trace = trace_with()
    await store(pool, trace, [span_with(trace)])
    await pool.execute(f"UPDATE span SET started_at = {times}")  # noqa: S608 -- constants above
    row = await Traces(pool).whole.as_json(WHOLE_TRACE, SPAN_OF_TRACE).get_short(trace.id)
    assert row is not None
    [span] = json.loads(row.text)["spans"]
    return span
