"""State updates: made under a guard, together, and past locked rows."""

import asyncio
from dataclasses import replace

import pytest

import storage.postgres.pool
from storage.agent_facts import AgentState, StateUpdate, SystemNotice
from storage.agents.state import AgentStates
from storage.agents.state_updates import MAX_RUN_NOTIFICATIONS
from storage.errors import RowLocked
from storage.events.model import EventType, NewEvent
from storage.history.runs import Runs
from storage.history.traces import Traces
from storage.ids import new_id
from storage.model import AgentStatus, Outcome
from storage.postgres.pool import Pool
from tests.storage.agents.states import (
    end_update,
    get_facts,
    guarded_update,
    insert_high,
    locked_by_another_program,
    started_state,
)
from tests.storage.events.recorded import forget_events, logged
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND, stored_agent, stored_organization

INSERT_MANY = """
INSERT INTO notification (id, agent_id, organization_id, title, priority, created_at, activated_at)
SELECT gen_random_uuid(), $1, $2, 'n', 'high', $3, $3::timestamptz - n * interval '1 s'
FROM generate_series(1, $4::integer) AS n
"""


INSERT_MESSAGE = """
INSERT INTO message (id, organization_id, agent_id, run_id, channel, direction, status, created_at)
SELECT gen_random_uuid(), organization_id, id, $2, 'sms', 'outbound', $3, $4 FROM agent WHERE id = $1
"""


async def test_run_keeps_the_longest_active_and_counts_all(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await pool.execute(INSERT_MANY, agent.id, agent.organization_id, NOW, MAX_RUN_NOTIFICATIONS + 5)

    state = await started_state(states, agent)

    assert state.run_id is not None
    run = await Runs(pool).get(state.run_id)
    assert run is not None
    oldest_first = await pool.fetch("SELECT id FROM notification ORDER BY activated_at, id")
    assert run.notifications == tuple(row["id"] for row in oldest_first[:MAX_RUN_NOTIFICATIONS])
    assert run.notification_count == MAX_RUN_NOTIFICATIONS + 5
    assert (await get_facts(states, agent)).pending_at_start == MAX_RUN_NOTIFICATIONS + 5


async def test_run_has_a_trace_that_ends_with_it(states: AgentStates, pool: Pool) -> None:
    running = await started_state(states, await stored_agent(pool))
    assert running.run_id is not None
    trace = await Traces(pool).get(running.run_id)
    assert trace is not None
    assert (trace.name, trace.started_at, trace.ended_at) == ("invoke_agent Scout", NOW, None)

    assert await states.update(end_update(running))

    assert await Traces(pool).get(running.run_id) == replace(trace, ended_at=NOW + MINUTE)


@pytest.mark.parametrize(
    ("outcome", "cleared", "is_tried_again", "needs_person"),
    [
        (Outcome.SLEPT, 0, False, True),
        (Outcome.ENDED, 0, False, True),
        (Outcome.ENDED, 0, True, False),
        (Outcome.FAILED, 0, True, False),
        (Outcome.FAILED, 1, True, True),  # what it has cleared comes in no other run
        (Outcome.INTERRUPTED, 1, True, False),
        (Outcome.STOPPED, 0, False, False),
    ],
)
async def test_failed_run_that_is_tried_again_needs_no_person(
    states: AgentStates, pool: Pool, outcome: Outcome, cleared: int, is_tried_again: bool, needs_person: bool
) -> None:
    update = end_update(await started_state(states, await stored_agent(pool)))
    assert update.end is not None
    journal = f'{{"cleared": [], "cleared_count": {cleared}, "trouble": "unsolved", "failed_calls": 1}}'
    after = replace(update.after, retry_at=NOW + HOUR if is_tried_again else None)
    end = replace(update.end, outcome=outcome, journal=journal)
    assert await states.update(replace(update, after=after, end=end))
    run = await Runs(pool).get(end.run_id)
    assert run is not None
    assert run.needs_person is needs_person


@pytest.mark.parametrize("status", ["failed", "queued"])
async def test_unsent_message_needs_a_person_instead_of_its_run(
    states: AgentStates, pool: Pool, status: str
) -> None:
    update = end_update(await started_state(states, agent := await stored_agent(pool)))
    assert update.end is not None
    await pool.execute(INSERT_MESSAGE, agent.id, update.end.run_id, status, NOW)
    journal = '{"cleared": [], "cleared_count": 1, "trouble": "unsent", "failed_calls": 1}'
    end = replace(update.end, outcome=Outcome.TIMED_OUT, journal=journal)
    assert await states.update(replace(update, end=end))
    run = await Runs(pool).get(end.run_id)
    assert run is not None
    assert (run.needs_person, await pool.fetchval("SELECT needs_person FROM message")) == (False, True)


async def test_concurrent_updates_are_each_checked_alone(states: AgentStates, pool: Pool) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id) for _ in range(30)]
    before = [(await get_facts(states, agent)).state for agent in agents]
    for agent in agents[::3]:
        await insert_high(pool, agent)

    results = await asyncio.gather(
        *(states.update(guarded_update(state, sleep_until=NOW + HOUR)) for state in before)
    )

    assert results == [number % 3 != 0 for number in range(30)]


async def test_locked_row_delays_no_other_agents_update(
    states: AgentStates, pool: Pool, database_url: str
) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id) for _ in range(5)]
    before = [(await get_facts(states, agent)).state for agent in agents]
    async with locked_by_another_program(database_url, agents[2]):
        updates = [
            asyncio.create_task(states.update(guarded_update(state, sleep_until=NOW + HOUR)))
            for state in before
        ]
        waiting = updates.pop(2)
        assert await asyncio.gather(*updates) == [True] * 4
        assert not waiting.done()
        late = (await get_facts(states, agents[0])).state
        assert await states.update(guarded_update(late, sleep_until=NOW)), (
            "the locked row delayed the next batch"
        )

    assert await waiting, "the update was not made when the row was free"
    assert (await get_facts(states, agents[2])).state.sleep_until == NOW + HOUR


async def test_update_raises_for_row_locked_too_long(
    states: AgentStates, pool: Pool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.postgres.pool, "LIMIT_WAIT", "10ms")
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state
    async with locked_by_another_program(database_url, agent):
        with pytest.raises(RowLocked):
            await states.update(guarded_update(before, sleep_until=NOW + HOUR))
        with pytest.raises(RowLocked):
            async with states.locked(agent.id, NOW):
                pass

    assert (await get_facts(states, agent)).state == before


async def test_update_writes_each_field_to_its_own_column(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state
    after = AgentState(
        agent_id=agent.id,
        status=AgentStatus.ARCHIVED,
        run_id=new_id(),
        run_started_at=NOW + 1 * SECOND,
        last_wake_reason="reminder",
        last_wake_interrupted_sleep_until=NOW + 2 * SECOND,
        sleep_until=NOW + 3 * SECOND,
        max_sleep_until=NOW + 4 * SECOND,
        last_started_at=NOW + 5 * SECOND,
        last_ended_at=NOW + 6 * SECOND,
        stopped_at=NOW + 7 * SECOND,
        run_requested_at=NOW + 8 * SECOND,
        queued_at=NOW + 9 * SECOND,
        failures=10,
        retries=11,
        left_over=12,
        retry_at=NOW + 12 * SECOND,
        retry_reason="retry_after_failure",
        last_error="it broke",
        next_due_at=NOW + 13 * SECOND,
        seen_until=NOW + 14 * SECOND,
        stop_reason="Maintenance",
        phase="stopping",
        phase_since=NOW + 15 * SECOND,
        why_digest=-(2**63),
    )

    assert await states.update(StateUpdate(before, after, guarded=True))

    assert (await get_facts(states, agent)).state == after
    row = await pool.fetchrow("SELECT * FROM agent_state WHERE agent_id = $1", agent.id)
    assert row is not None
    expected = replace(after, version=1)
    columns = set(dict(row)) - {"last_activated_at", "organization_id"}  # which others write
    assert {column: row[column] for column in columns} == {
        column: getattr(expected, column) for column in columns
    }


async def test_budget_is_reached_once_with_its_notice(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await forget_events(pool)
    data = '{"of":"agent","cap_usd":5.0,"spent_usd":6.5}'
    notice = SystemNotice(new_id(), "Over budget", "It has spent its budget.", NOW, data)
    for _ in range(2):
        before = (await get_facts(states, agent)).state
        assert await states.update(StateUpdate(before, before, guarded=True, notice=notice))

    created = {"source": "system", "priority": "low"}
    reached = {"of": "agent", "cap_usd": 5.0, "spent_usd": 6.5}
    assert await logged(pool, "notification") == [("notification.created", "", created)]
    assert await logged(pool, "budget") == [("budget.reached", "", reached)]


async def test_events_are_stored_in_order_only_if_update_is_made(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state
    run_id = new_id()
    events = (
        NewEvent(EventType.RUN_ENDED, NOW, agent.id, run_id, actor=f"run:{run_id}", data='{"turns":3}'),
        NewEvent(EventType.AGENT_ASLEEP, NOW + SECOND, agent.id, run_id, phase="asleep"),
    )
    refused = replace(before, status=AgentStatus.ARCHIVED)
    select = "SELECT * FROM event WHERE run_id IS NOT NULL ORDER BY id"

    assert not await states.update(StateUpdate(refused, before, guarded=True, events=events))
    assert await pool.fetch(select) == []
    assert await states.update(StateUpdate(before, before, guarded=True, events=events))

    rows = await pool.fetch(select)
    assert [(row["type"], row["at"], row["actor"], row["phase"], row["data"]) for row in rows] == [
        ("run.ended", NOW, f"run:{run_id}", None, {"turns": 3}),
        ("agent.asleep", NOW + SECOND, "", "asleep", {}),
    ]
    assert {(row["organization_id"], row["agent_id"], row["run_id"]) for row in rows} == {
        (agent.organization_id, agent.id, run_id)
    }
