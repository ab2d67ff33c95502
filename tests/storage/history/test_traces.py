"""Traces and their spans: inserting, listing and ending them."""

import json
from collections.abc import Awaitable
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from storage.agent_facts import AgentState, RunEnd, RunStart, StateUpdate
from storage.agents.state import AgentStates
from storage.agents.templates import Templates
from storage.errors import NotUnique
from storage.history.trace_model import NewSpan, SpanSummary, Trace
from storage.history.traces import (
    Ending,
    SpanWithMetadata,
    TraceFilters,
    TraceOwner,
    Traces,
)
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Outcome
from storage.postgres.json_values import decoded
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.postgres.query import Period
from tests.storage.factories import HOUR, NOW, SECOND, new_span, stored_agent, template
from tests.storage.postgres.explaining_pool import ExplainingPool

pytestmark = pytest.mark.own_database

INSERT_TRACE = """
INSERT INTO trace (id, agent_id, organization_id, name, started_at, error, metadata)
VALUES ($1, $2, $3, 'invoke_agent Scout', $4, $5, $6)
"""


@pytest.fixture
def traces(pool: Pool) -> Traces:
    return Traces(pool)


async def stored_trace(pool: Pool, of: Agent, started_at: datetime = NOW, error: str = "") -> UUID:
    trace_id = new_id()
    await pool.execute(
        INSERT_TRACE, trace_id, of.id, of.organization_id, started_at, error, {"turns": [1, None, {"a": "ü"}]}
    )
    return trace_id


async def require(awaitable: Awaitable[Trace | None]) -> Trace:
    trace = await awaitable
    assert trace is not None
    return trace


def summary_of(new: NewSpan) -> SpanSummary:
    columns = {name: getattr(new.span, name) for name in SpanSummary.__slots__}
    return SpanSummary(**columns)


async def listed(traces: Traces, of: Agent, filters: TraceFilters) -> list[UUID]:
    summaries = await traces.list_page([of.organization_id], filters, Page())
    assert await traces.count([of.organization_id], filters) == len(summaries)
    return [summary.id for summary in summaries]


async def test_trace_has_metadata_but_its_listed_spans_do_not(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool)
    trace_id = await stored_trace(pool, scout)
    root = new_span(trace_id, {"gen_ai.request.model": "builtin/inbox"}, name="invoke_agent Scout")
    child = new_span(trace_id, parent_id=root.span.id, started_at=NOW + SECOND, ended_at=None, error="failed")

    await traces.insert_spans([child, root])

    trace = await traces.get(trace_id)
    assert trace is not None
    assert (trace.agent_id, trace.started_at, trace.ended_at) == (scout.id, NOW, None)
    assert trace.metadata == {"turns": [1, None, {"a": "ü"}]}
    assert await traces.list_spans(trace_id) == [summary_of(root), summary_of(child)]
    stored = await pool.fetch("SELECT span_id, metadata FROM span_metadata")
    assert [tuple(row) for row in stored] == [(root.span.id, {"gen_ai.request.model": "builtin/inbox"})]
    assert await traces.get(new_id()) is None
    assert await traces.list_spans(new_id()) == []


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
        chunk = await traces.list_expanded_spans(trace, cursor, limit, max_bytes)
        return [(each.span, decoded(each.metadata)) for each in chunk], chunk.is_cut

    assert await listed(None, 9, 250_000) == (expected[:3], True)
    assert await listed(2, 9, 250_000) == (expected[3:], False)
    assert await listed(None, 9, 1) == (expected[:1], True)
    assert await listed(1, 1, 1) == (expected[2:3], True)
    assert await listed(0, 2, 250_000) == (expected[1:3], True)
    assert await listed(2, 2, 250_000) == (expected[3:], False)
    assert await listed(4, 9, 250_000) == ([], False)


async def test_expanded_page_reads_no_span_beyond_its_bytes(pool: Pool) -> None:
    trace_id = await stored_trace(pool, await stored_agent(pool))
    explaining, trace = ExplainingPool(pool), await require(Traces(pool).get(trace_id))
    await Traces(pool).insert_spans([new_span(trace_id, {"screenshot": "x" * 10_000}) for _ in range(500)])

    chunk = await Traces(explaining).list_expanded_spans(trace, None, 1000, 45_000)

    assert (len(chunk), chunk.is_cut) == (4, True)
    assert max(explaining.rows_touched.values()) <= 10


async def test_page_returns_total_number_of_traces(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool)
    stored = [await stored_trace(pool, scout, NOW + n * SECOND) for n in range(5)]
    await stored_trace(pool, await stored_agent(pool))

    owners = [scout.organization_id]
    page = await traces.list_page(owners, TraceFilters(), Page(limit=2, offset=1))
    rest = await traces.list_page(owners, TraceFilters(), Page((page[-1].started_at, page[-1].id)))

    assert [summary.id for summary in (*page, *rest)] == [stored[3], stored[2], stored[1], stored[0]]
    assert await traces.list_page(owners, TraceFilters(), Page(offset=9)) == []
    assert await traces.list_page([], TraceFilters(), Page()) == []
    assert await traces.count([], TraceFilters()) == 0


async def test_page_merges_traces_of_several_organizations(traces: Traces, pool: Pool) -> None:
    ours, also_ours = await stored_agent(pool), await stored_agent(pool)
    stored = [
        await stored_trace(pool, one, NOW + n * SECOND) for n, one in enumerate((ours, also_ours, ours))
    ]

    owners = [ours.organization_id, also_ours.organization_id]
    summaries = await traces.list_page(owners, TraceFilters(), Page(limit=2))

    assert [summary.id for summary in summaries] == [stored[2], stored[1]]
    assert await traces.count(owners, TraceFilters()) == 3


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


async def test_page_filters_narrow_the_list(traces: Traces, pool: Pool) -> None:
    owner = (await stored_agent(pool)).organization_id
    concierge = template(owner)
    await Templates(pool).insert(concierge)
    scout = await stored_agent(pool, owner, template_id=concierge.id)
    other = await stored_agent(pool, owner)
    plain = await stored_trace(pool, scout, NOW)
    failed = await stored_trace(pool, other, NOW + HOUR, error="timeout")
    failed_span = await stored_trace(pool, other, NOW + 2 * HOUR)
    await traces.insert_spans([new_span(plain), new_span(failed_span, error="timeout")])

    assert await listed(traces, scout, TraceFilters(agent_id=scout.id)) == [plain]
    assert await listed(traces, scout, TraceFilters(template_id=concierge.id)) == [plain]
    assert await listed(traces, scout, TraceFilters(has_error=True)) == [failed_span, failed]
    assert await listed(traces, scout, TraceFilters(has_error=False)) == [plain]
    assert await listed(traces, scout, TraceFilters(started=Period(NOW + HOUR))) == [failed_span, failed]
    assert await listed(traces, scout, TraceFilters(started=Period(None, NOW + HOUR))) == [plain]
    assert await listed(traces, scout, TraceFilters(agent_id=other.id, started=Period(end=NOW))) == []


async def test_trace_id_is_unique(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool, timezone="Europe/Berlin")
    trace = Trace(new_id(), scout.organization_id, scout.id, "evening", NOW, None, "", None)

    await traces.insert(trace)

    assert await traces.get(trace.id) == trace
    with pytest.raises(NotUnique) as refused:
        await traces.insert(trace)
    assert refused.value.fields == ("id",)
    owner = TraceOwner(scout.organization_id, scout.id, "Europe/Berlin")
    assert await traces.list_owners({trace.id, new_id()}) == {trace.id: owner}


async def test_first_end_of_trace_stays_but_later_fields_count(traces: Traces, pool: Pool) -> None:
    trace_id = await stored_trace(pool, await stored_agent(pool), error="early")

    first = await traces.end(trace_id, Ending(NOW + SECOND))
    later = await traces.end(trace_id, Ending(NOW + HOUR, "renamed", "late", True, None))

    assert first is not None
    assert (first.ended_at, first.error, first.metadata["turns"][0]) == (NOW + SECOND, "early", 1)
    assert later is not None
    assert (later.ended_at, later.name, later.error, later.metadata) == (
        NOW + SECOND,
        "renamed",
        "late",
        None,
    )
    assert later == await traces.get(trace_id)
    assert await traces.end(new_id(), Ending(NOW)) is None


async def test_trace_of_open_run_is_ended_by_the_run(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool)
    states = AgentStates(pool)
    asleep = AgentState(scout.id)
    running = replace(asleep, status=AgentStatus.RUNNING, run_id=new_id())
    assert running.run_id is not None
    start = RunStart(running.run_id, "run_requested", None, None, NOW, "invoke_agent Scout")
    assert await states.update(StateUpdate(asleep, running, guarded=False, start=start))

    open_trace = await traces.end(running.run_id, Ending(NOW + SECOND, error="no network"))
    end = RunEnd(running.run_id, Outcome.SLEPT, NOW + HOUR, 1, "")
    started = replace(running, version=1)
    assert await states.update(StateUpdate(started, asleep, guarded=False, end=end))

    assert open_trace is not None
    assert (open_trace.ended_at, open_trace.error) == (None, "no network")
    ended = await traces.get(running.run_id)
    assert ended is not None
    assert (ended.ended_at, ended.error) == (NOW + HOUR, "no network")
    await states.close()


async def test_get_span_returns_metadata_and_owners(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool)
    trace_id = await stored_trace(pool, scout)
    plain, null = new_span(trace_id), NewSpan(new_span(trace_id).span, "null")
    await traces.insert_spans([plain, null])

    assert await traces.get_span(plain.span.id) == SpanWithMetadata(
        plain.span, {}, scout.organization_id, scout.id
    )
    assert await traces.get_span(null.span.id) == SpanWithMetadata(
        null.span, None, scout.organization_id, scout.id
    )
    assert await traces.get_span(new_id()) is None
    assert await traces.list_known_span_ids({plain.span.id, new_id()}) == {plain.span.id}


async def test_first_end_of_span_stays_but_metadata_is_replaced(traces: Traces, pool: Pool) -> None:
    trace_id = await stored_trace(pool, await stored_agent(pool))
    spans = [new_span(trace_id, {"old": 1}, ended_at=None), new_span(trace_id, ended_at=None, error="early")]
    await traces.insert_spans(spans)
    first, second = (new.span.id for new in spans)

    await traces.end_span(first, Ending(NOW + SECOND, error="late"))
    await traces.end_span(first, Ending(NOW + HOUR, has_metadata=True, metadata={"new": 2}))
    await traces.end_span(second, Ending(NOW + HOUR, has_metadata=True, metadata=None))

    ended, other = await traces.get_span(first), await traces.get_span(second)
    assert ended is not None
    assert (ended.span.ended_at, ended.span.error, ended.metadata) == (NOW + SECOND, "late", {"new": 2})
    assert other is not None
    assert (other.span.ended_at, other.span.error, other.metadata) == (NOW + HOUR, "early", None)
