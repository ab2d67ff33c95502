"""The wake ledger, and traces with their spans."""

import asyncio
from dataclasses import replace
from datetime import datetime
from uuid import UUID

import pytest

from storage.agents.agents import Agents
from storage.agents.state import AgentStates
from storage.agents.templates import Templates
from storage.errors import NotUnique
from storage.history.runs import Runs
from storage.history.traces import MAX_SHARED_CHARACTERS, Ending, FullSpan, TraceFilters, TraceOwner, Traces
from storage.ids import new_id
from storage.model import (
    Agent,
    AgentState,
    AgentStatus,
    NewSpan,
    Outcome,
    Run,
    RunEnd,
    RunStart,
    StateUpdate,
    Trace,
)
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, SECOND, new_span, pairs, stored_agent, template

INSERT_RUN = """
INSERT INTO run (
    id, agent_id, organization_id, wake_reason, notifications, started_at, ended_at, turns, outcome)
VALUES ($1, $2, $3, 'reminder', $4, $5, $6, 3, $7)
"""

INSERT_TRACE = """
INSERT INTO trace (id, agent_id, organization_id, name, started_at, error, metadata)
VALUES ($1, $2, $3, 'invoke_agent Scout', $4, $5, $6)
"""


@pytest.fixture
def traces(pool: Pool) -> Traces:
    return Traces(pool)


async def stored_run(pool: Pool, of: Agent, started_at: datetime = NOW) -> Run:
    run = Run(
        id=new_id(),
        agent_id=of.id,
        organization_id=of.organization_id,
        wake_reason="reminder",
        notifications=(new_id(), new_id()),
        interrupted_sleep_until=None,
        max_sleep_until=None,
        started_at=started_at,
        ended_at=started_at + SECOND,
        turns=3,
        outcome=Outcome.SLEPT,
        error="",
    )
    await pool.execute(
        INSERT_RUN,
        run.id,
        of.id,
        of.organization_id,
        run.notifications,
        started_at,
        run.ended_at,
        run.outcome,
    )
    return run


async def stored_trace(pool: Pool, of: Agent, started_at: datetime = NOW, error: str = "") -> UUID:
    trace_id = new_id()
    await pool.execute(
        INSERT_TRACE, trace_id, of.id, of.organization_id, started_at, error, {"turns": [1, None, {"a": "ü"}]}
    )
    return trace_id


async def listed(traces: Traces, of: Agent, filters: TraceFilters) -> list[UUID]:
    found, total = await traces.page([of.organization_id], filters, 50, 0)
    assert total == len(found)
    return [summary.trace.id for summary in found]


async def test_runs_of_an_agent_are_paged_from_the_last_started(pool: Pool) -> None:
    scout, other = await stored_agent(pool), await stored_agent(pool)
    runs = [await stored_run(pool, scout, NOW + (position // 2) * SECOND) for position in range(5)]
    await stored_run(pool, other)
    newest_first = sorted(runs, key=lambda run: (run.started_at, run.id), reverse=True)

    first = await Runs(pool).page(scout.id, Page(limit=2))
    rest = await Runs(pool).page(scout.id, Page(after=(first[-1].started_at, first[-1].id)))

    assert first + rest == newest_first
    assert await Runs(pool).page(scout.id, Page(limit=2, offset=4)) == newest_first[4:]
    assert await Runs(pool).get(runs[0].id) == runs[0]


async def test_runs_of_a_deleted_agent_are_gone(pool: Pool) -> None:
    scout = await stored_agent(pool)
    run = await stored_run(pool, scout)

    await Agents(pool).delete(scout.id, NOW)

    assert await Runs(pool).get(run.id) is None
    assert await Runs(pool).page(scout.id, Page()) == []


async def test_a_trace_is_read_with_its_metadata_and_its_spans_without(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool)
    trace_id = await stored_trace(pool, scout)
    root = new_span(trace_id, {"gen_ai.request.model": "builtin/inbox"}, name="invoke_agent Scout")
    child = new_span(trace_id, parent_id=root.span.id, started_at=NOW + SECOND, ended_at=None, error="failed")

    await traces.insert_spans([child, root])

    trace = await traces.get(trace_id)
    assert trace is not None
    assert (trace.agent_id, trace.started_at, trace.ended_at) == (scout.id, NOW, None)
    assert trace.metadata == {"turns": [1, None, {"a": "ü"}]}
    assert await traces.spans(trace_id) == [root.span, child.span]
    stored = await pool.fetch("SELECT span_id, metadata FROM span_metadata")
    assert [tuple(row) for row in stored] == [(root.span.id, {"gen_ai.request.model": "builtin/inbox"})]
    assert await traces.get(new_id()) is None
    assert await traces.spans(new_id()) == []


async def test_spans_given_at_once_by_many_are_all_stored(traces: Traces, pool: Pool) -> None:
    trace_ids = [new_id() for _ in range(40)]

    await asyncio.gather(
        *(traces.insert_spans([new_span(trace_id, {"n": n}) for n in range(7)]) for trace_id in trace_ids),
        traces.insert_spans([]),
    )

    counts = await pairs(pool, "SELECT trace_id, count(*) FROM span GROUP BY trace_id")
    assert counts == dict.fromkeys(trace_ids, 7)
    assert await pool.fetchval("SELECT count(*) FROM span_metadata") == 280


async def test_long_spans_are_written_apart_and_hold_up_nobody_elses(traces: Traces, pool: Pool) -> None:
    short, long = {"text": "x"}, {"text": "x" * MAX_SHARED_CHARACTERS}

    await asyncio.gather(
        *(traces.insert_spans([new_span(new_id(), metadata)]) for metadata in (short, long, short, long))
    )

    writes = await pool.fetch("SELECT xmin::text, count(*) FROM span GROUP BY xmin ORDER BY count")
    assert [write["count"] for write in writes] == [1, 1, 2]


async def test_a_span_that_exists_fails_alone(traces: Traces, pool: Pool) -> None:
    trace_id = new_id()
    there, fresh = new_span(trace_id), new_span(trace_id)
    await traces.insert_spans([there])

    first, second = await asyncio.gather(
        traces.insert_spans([there]), traces.insert_spans([fresh]), return_exceptions=True
    )

    assert isinstance(first, NotUnique)
    assert second is None
    assert {span.id for span in await traces.spans(trace_id)} == {there.span.id, fresh.span.id}


async def test_a_trace_list_says_how_many_there_are_beyond_the_page(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool)
    stored = [await stored_trace(pool, scout, NOW + n * SECOND) for n in range(5)]
    await stored_trace(pool, await stored_agent(pool))

    page, total = await traces.page([scout.organization_id], TraceFilters(), 2, 1)
    beyond, beyond_total = await traces.page([scout.organization_id], TraceFilters(), 2, 9)

    assert [summary.trace.id for summary in page] == [stored[3], stored[2]]
    assert (total, beyond, beyond_total) == (5, [], 5)
    assert await traces.page([], TraceFilters(), 50, 0) == ([], 0)


async def test_a_trace_list_of_several_organizations_is_one_list(traces: Traces, pool: Pool) -> None:
    ours, also_ours = await stored_agent(pool), await stored_agent(pool)
    stored = [
        await stored_trace(pool, one, NOW + n * SECOND) for n, one in enumerate((ours, also_ours, ours))
    ]

    page, total = await traces.page([ours.organization_id, also_ours.organization_id], TraceFilters(), 2, 0)

    assert [summary.trace.id for summary in page] == [stored[2], stored[1]]
    assert total == 3


async def test_a_summary_counts_spans_and_names_agent_and_template(traces: Traces, pool: Pool) -> None:
    owner = (await stored_agent(pool)).organization_id
    concierge = template(owner)
    await Templates(pool).insert(concierge)
    scout = await stored_agent(pool, owner, name="Scout", template_id=concierge.id)
    trace_id = await stored_trace(pool, scout)
    await traces.insert_spans([new_span(trace_id), new_span(trace_id, error="timeout")])

    [summary], _ = await traces.page([owner], TraceFilters(), 50, 0)

    assert summary.trace == await traces.get(trace_id)
    assert (summary.agent_name, summary.template_name) == ("Scout", "Concierge")
    assert (summary.span_count, summary.has_error) == (2, True)


async def test_filters_narrow_a_trace_list(traces: Traces, pool: Pool) -> None:
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
    assert await listed(traces, scout, TraceFilters(started_after=NOW + HOUR)) == [failed_span, failed]
    assert await listed(traces, scout, TraceFilters(started_before=NOW + HOUR)) == [plain]
    assert await listed(traces, scout, TraceFilters(agent_id=other.id, started_before=NOW)) == []


async def test_a_trace_is_stored_once(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool, timezone="Europe/Berlin")
    trace = Trace(new_id(), scout.organization_id, scout.id, "evening", NOW, None, "", None)

    await traces.insert(trace)

    assert await traces.get(trace.id) == trace
    with pytest.raises(NotUnique) as refused:
        await traces.insert(trace)
    assert refused.value.fields == ("id",)
    owner = TraceOwner(scout.organization_id, scout.id, "Europe/Berlin")
    assert await traces.owners({trace.id, new_id()}) == {trace.id: owner}


async def test_the_first_end_of_a_trace_stays_and_what_else_is_said_later_counts(
    traces: Traces, pool: Pool
) -> None:
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


async def test_the_trace_of_a_run_that_goes_on_is_ended_by_the_run(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool)
    states = AgentStates(pool)
    asleep = AgentState(scout.id)
    running = replace(asleep, status=AgentStatus.RUNNING, run_id=new_id())
    assert running.run_id is not None
    start = RunStart(running.run_id, "run_requested", None, None, NOW, "invoke_agent Scout")
    assert await states.update(StateUpdate(asleep, running, guarded=False, start=start))

    told = await traces.end(running.run_id, Ending(NOW + SECOND, error="no network"))
    end = RunEnd(running.run_id, Outcome.SLEPT, NOW + HOUR, 1, "")
    started = replace(running, version=1)
    assert await states.update(StateUpdate(started, asleep, guarded=False, end=end))

    assert told is not None
    assert (told.ended_at, told.error) == (None, "no network")
    ended = await traces.get(running.run_id)
    assert ended is not None
    assert (ended.ended_at, ended.error) == (NOW + HOUR, "no network")
    await states.close()


async def test_a_span_is_read_with_its_metadata_and_whose_it_is(traces: Traces, pool: Pool) -> None:
    scout = await stored_agent(pool)
    trace_id = await stored_trace(pool, scout)
    plain, null = new_span(trace_id), NewSpan(new_span(trace_id).span, "null")
    await traces.insert_spans([plain, null])

    assert await traces.get_span(plain.span.id) == FullSpan(plain.span, {}, scout.organization_id, scout.id)
    assert await traces.get_span(null.span.id) == FullSpan(null.span, None, scout.organization_id, scout.id)
    assert await traces.get_span(new_id()) is None
    assert await traces.known_spans({plain.span.id, new_id()}) == {plain.span.id}


async def test_the_first_end_of_a_span_stays_and_its_metadata_is_replaced(traces: Traces, pool: Pool) -> None:
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


async def test_a_span_that_exists_with_metadata_is_refused_by_its_id(traces: Traces) -> None:
    there = new_span(new_id(), {"n": 1})
    await traces.insert_spans([there])

    with pytest.raises(NotUnique) as refused:
        await traces.insert_spans([there])

    assert refused.value.fields == ("id",)
