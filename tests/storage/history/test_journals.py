"""Journals: what rows tell about a run, and what is added after its sleep."""

from datetime import timedelta
from decimal import Decimal

import pytest

from storage.agents.state import AgentStates
from storage.history.runs import JournalFacts, Journals, Runs, ToolUse
from storage.history.traces import Traces
from storage.history.usage import Usage
from storage.ids import new_id
from storage.postgres.pool import Pool
from tests.storage.agents.states import insert_high, started_state
from tests.storage.factories import HOUR, NOW, new_span, stored_agent, usage_record
from tests.storage.history.test_runs import stored_run

CLEAR_ALL = """
UPDATE notification SET cleared = true, cleared_at = $1, activated_at = NULL WHERE NOT cleared
"""
SET_JOURNAL = """
UPDATE run SET journal = '{"woken_by": ["Hello"], "cleared": [], "cleared_count": 3, "uncleared": [],
    "uncleared_count": 0, "sent": [],
    "sent_count": 0, "failed_count": 1, "unanswered": [], "tools": ["look"], "cost_usd": 0}' WHERE id = $1
"""


async def test_facts_of_a_run_leave_out_other_runs(pool: Pool) -> None:
    agent, states = await stored_agent(pool), AgentStates(pool)
    await insert_high(pool, agent, created_at=NOW - HOUR)
    await pool.execute(CLEAR_ALL, NOW - HOUR)
    cleared = await insert_high(pool, agent)
    state = await started_state(states, agent)
    await pool.execute(CLEAR_ALL, NOW + HOUR)
    await insert_high(pool, agent)
    assert state.run_id is not None
    usage = Usage(pool)
    for trace_id, at in ((state.run_id, NOW + HOUR), (None, NOW), (new_id(), NOW)):
        await usage.insert(usage_record(agent, trace_id=trace_id, cost_usd=Decimal("0.5"), occurred_at=at))
    look, failed = (
        new_span(state.run_id, name="execute_tool look", span_type="tool", error=error, started_at=at)
        for error, at in (("", NOW + HOUR), ("dark", NOW))
    )
    await Traces(pool).insert_spans([look, failed, new_span(state.run_id, name="execute_tool by hand")])

    facts = await Journals(pool).get_facts(state.run_id)

    assert facts == JournalFacts((ToolUse("look", 2, 1, "dark"),), (cleared,), Decimal("0.5"))


@pytest.mark.parametrize(("later", "unsolved"), [("book", False), ("get_time", True), ("", True)])
async def test_failed_process_call_is_unsolved_until_later_change(
    pool: Pool, later: str, unsolved: bool
) -> None:
    state = await started_state(AgentStates(pool), await stored_agent(pool))
    assert state.run_id is not None
    calls = [("look", "dark", NOW + HOUR), (later or "look", "" if later else "dark", NOW + 3 * HOUR)]
    await Traces(pool).insert_spans(
        [
            new_span(state.run_id, name=f"execute_tool {name}", span_type="tool", error=error, started_at=at)
            for name, error, at in calls
        ]
    )
    tools = (await Journals(pool).get_facts(state.run_id)).tools
    assert [tool.unsolved for tool in tools if tool.name == "look"] == [unsolved]


async def test_missing_run_has_no_facts(pool: Pool) -> None:
    assert await Journals(pool).get_facts(new_id()) == JournalFacts()


async def test_late_entries_replace_those_of_the_journal(pool: Pool) -> None:
    run = await stored_run(pool, await stored_agent(pool), NOW - timedelta(minutes=1))
    journals, runs = Journals(pool), Runs(pool)
    late = {"tools": [], "cost_usd": 0.5, "unpriced_calls": 1}
    written = late | {"failed_calls": 2, "trouble": "unsolved"}
    await journals.update(run.id, written)
    without = await runs.get(run.id)
    assert without is not None
    assert without.journal is None

    await pool.execute(SET_JOURNAL, run.id)
    await journals.update(run.id, written)

    completed = await runs.get(run.id)
    assert completed is not None
    kept = {
        "woken_by": ["Hello"],
        "cleared": [],
        "cleared_count": 3,
        "sent": [],
        "sent_count": 0,
        "failed_count": 1,
        "unanswered": [],
    }
    assert completed.journal == kept | late | {"uncleared": [], "uncleared_count": 0}
    assert (completed.failed_calls, completed.needs_person) == (2, True)
