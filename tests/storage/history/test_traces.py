"""Traces: pages of their spans with metadata, and summaries."""

import json
from collections.abc import Awaitable
from typing import Any
from uuid import UUID

import pytest

from storage.agents.templates import Templates
from storage.history.trace_model import NewSpan, SpanSummary, Trace
from storage.history.traces import (
    TraceFilters,
    Traces,
)
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.json_values import decoded
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, SECOND, new_span, stored_agent, template
from tests.storage.postgres.explaining_pool import ExplainingPool

pytestmark = pytest.mark.own_database

INSERT_TRACE = """
INSERT INTO trace (id, agent_id, organization_id, name, started_at)
VALUES ($1, $2, $3, 'invoke_agent Scout', $4)
"""


@pytest.fixture
def traces(pool: Pool) -> Traces:
    return Traces(pool)


async def stored_trace(pool: Pool, of: Agent) -> UUID:
    trace_id = new_id()
    await pool.execute(INSERT_TRACE, trace_id, of.id, of.organization_id, NOW)
    return trace_id


async def require(awaitable: Awaitable[Trace | None]) -> Trace:
    trace = await awaitable
    assert trace is not None
    return trace


def summary_of(new: NewSpan) -> SpanSummary:
    columns = {name: getattr(new.span, name) for name in SpanSummary.__slots__}
    return SpanSummary(**columns)


async def test_expanded_spans_end_with_the_bytes_of_the_page(traces: Traces, pool: Pool) -> None:
    trace_id, other_id = [await stored_trace(pool, await stored_agent(pool)) for _ in range(2)]
    trace = await require(traces.get(trace_id))
    long = {"screenshot": "x" * 100_000}
    spans = [
        new_span(trace_id, metadata, started_at=NOW + number * SECOND)
        for number, metadata in enumerate((None, long, long, long, {"a": 1}))
    ]
    await traces.insert_spans([*spans, new_span(other_id, long)])
    expected = [(summary_of(new), json.loads(str(new.metadata))) for new in spans]

    async def listed(after: int | None, limit: int, max_bytes: int) -> tuple[list[Any], bool]:
        cursor = None if after is None else (spans[after].span.started_at, spans[after].span.id)
        chunk = await traces.list_expanded_spans([trace], cursor, limit, max_bytes)
        return [(each.span, decoded(each.metadata)) for each in chunk], chunk.is_cut

    assert await listed(None, 9, 250_000) == (expected[:3], True)
    assert await listed(2, 9, 250_000) == (expected[3:], False)
    assert await listed(None, 9, 1) == (expected[:1], True)
    assert await listed(1, 1, 1) == (expected[2:3], True)
    assert await listed(0, 2, 250_000) == (expected[1:3], True)
    assert await listed(2, 2, 250_000) == (expected[3:], False)
    assert await listed(4, 9, 250_000) == ([], False)


async def test_expanded_spans_of_several_traces_come_trace_by_trace(traces: Traces, pool: Pool) -> None:
    ids = [await stored_trace(pool, await stored_agent(pool)) for _ in range(4)]
    listed = [await require(traces.get(trace_id)) for trace_id in ids]
    numbers = (3, 0, 2, 1)
    spans = [
        new_span(trace_id, started_at=NOW + number * SECOND)
        for trace_id, count in zip(ids, numbers, strict=True)
        for number in range(count)
    ]
    await traces.insert_spans(spans)
    expected = [new.span.id for new in spans]

    for limit in (1, 2, 3, 10):
        seen, after, left = list[UUID](), None, listed
        while left:
            page = await traces.list_expanded_spans(left, after, limit, 2**20)
            seen += [each.span.id for each in page]
            last = page[-1].span
            after = last.started_at, last.id
            left = listed[ids.index(last.trace_id) :] if page.is_cut else []
        assert seen == expected


async def test_expanded_page_reads_no_span_beyond_its_bytes(pool: Pool) -> None:
    trace_id = await stored_trace(pool, await stored_agent(pool))
    explaining, trace = ExplainingPool(pool), await require(Traces(pool).get(trace_id))
    await Traces(pool).insert_spans([new_span(trace_id, {"screenshot": "x" * 10_000}) for _ in range(500)])

    chunk = await Traces(explaining).list_expanded_spans([trace], None, 1000, 45_000)

    assert (len(chunk), chunk.is_cut) == (4, True)
    assert max(explaining.rows_touched.values()) <= 10


async def test_summary_counts_spans_and_names_agent_and_template(traces: Traces, pool: Pool) -> None:
    owner = (await stored_agent(pool)).organization_id
    concierge = template(owner)
    await Templates(pool).insert(concierge)
    scout = await stored_agent(pool, owner, name="Scout", template_id=concierge.id)
    trace_id = await stored_trace(pool, scout)
    await traces.insert_spans([new_span(trace_id), new_span(trace_id, error="timeout")])

    [summary] = await traces.list_page([owner], TraceFilters(), Page())

    assert summary.id == trace_id
    assert (summary.agent_name, summary.template_name) == ("Scout", "Concierge")
    assert (summary.span_count, summary.has_error) == (2, True)
