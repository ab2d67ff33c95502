"""State updates: made under a guard, together, and past locked rows."""

import asyncio
from dataclasses import replace

import pytest

import storage.postgres.pool
from storage.agent_facts import AgentState, StateUpdate, SystemNotice
from storage.agents.state import AgentStates
from storage.agents.state_updates import MAX_RUN_NOTIFICATIONS
from storage.errors import RowLocked
from storage.events.catalogue import EventType
from storage.events.model import NewEvent
from storage.history.runs import Runs
from storage.history.traces import Traces
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Outcome, Priority
from storage.postgres.pool import Pool
from tests.storage.agents.states import (
    end_update,
    get_facts,
    guarded_update,
    insert_high,
    locked_by_another_program,
    start_update,
    started_state,
)
from tests.storage.events.recorded import forget_events, logged
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND, stored_agent, stored_organization

INSERT_MANY = """
INSERT INTO notification (id, agent_id, organization_id, title, priority, created_at, activated_at)
SELECT gen_random_uuid(), $1, $2, 'n', 'high', $3, $3::timestamptz - n * interval '1 s'
FROM generate_series(1, $4::integer) AS n
"""


async def test_start_inserts_run_and_trace_with_active_notifications(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    active = [
        await insert_high(pool, agent, created_at=NOW - 2 * SECOND),
        await insert_high(pool, agent, created_at=NOW - SECOND),
    ]
    await insert_high(pool, agent, priority=Priority.LOW)
    await insert_high(pool, agent, scheduled_for=NOW + HOUR)

    state = await started_state(states, agent)

    assert state.run_id is not None
    run, trace = await Runs(pool).get(state.run_id), await Traces(pool).get(state.run_id)
    assert run is not None
    assert trace is not None
    assert run.notifications == (active[0], active[1])
    assert (run.wake_reason, run.started_at, run.max_sleep_until) == ("run_requested", NOW, NOW + HOUR)
    assert (run.ended_at, run.outcome, run.turns) == (None, None, 0)
    assert (trace.name, trace.started_at, trace.ended_at) == ("invoke_agent Scout", NOW, None)
    assert (await get_facts(states, agent)).pending_at_start == 2


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


async def test_end_ends_run_and_trace(states: AgentStates, pool: Pool) -> None:
    running = await started_state(states, await stored_agent(pool))
    assert running.run_id is not None

    assert await states.update(end_update(running))

    run, trace = await Runs(pool).get(running.run_id), await Traces(pool).get(running.run_id)
    assert run is not None
    assert trace is not None
    assert (run.ended_at, run.outcome, run.turns) == (NOW + MINUTE, Outcome.SLEPT, 3)
    assert trace.ended_at == NOW + MINUTE


async def test_update_keeps_wake_seq_of_new_notifications(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state
    await insert_high(pool, agent)

    assert await states.update(start_update(before))

    assert (await get_facts(states, agent)).state.wake_seq == 1


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


async def test_only_first_of_two_concurrent_updates_is_made(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state

    results = await asyncio.gather(
        *(states.update(guarded_update(before, sleep_until=NOW + hours * HOUR)) for hours in (1, 2))
    )

    assert results == [True, False]
    assert (await get_facts(states, agent)).state.sleep_until == NOW + HOUR


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
        async with asyncio.timeout(5):
            assert await asyncio.gather(*updates) == [True] * 4
        assert not waiting.done()
        late = (await get_facts(states, agents[0])).state
        assert await states.update(guarded_update(late, sleep_until=NOW)), (
            "the locked row delayed the next batch"
        )

    assert await waiting, "the update was not made when the row was free"
    assert (await get_facts(states, agents[2])).state.sleep_until == NOW + HOUR


async def test_many_locked_rows_leave_connections_for_others(
    states: AgentStates, pool: Pool, database_url: str
) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id) for _ in range(31)]
    *before, free = [(await get_facts(states, agent)).state for agent in agents]

    async def lock(agent: Agent) -> None:
        async with states.locked(agent.id, NOW):
            pass

    async with locked_by_another_program(database_url, *agents[:-1]):
        waiting = [
            *(asyncio.create_task(states.update(guarded_update(state, sleep_until=NOW))) for state in before),
            *(asyncio.create_task(lock(agent)) for agent in agents[:-1]),
        ]
        async with asyncio.timeout(3):
            assert await states.update(guarded_update(free, sleep_until=NOW + HOUR))
            await lock(agents[-1])
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_update_raises_for_row_locked_too_long(
    states: AgentStates, pool: Pool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.postgres.pool, "LIMIT_WAIT", "SET LOCAL lock_timeout = '10ms'")
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state
    async with locked_by_another_program(database_url, agent), asyncio.timeout(5):
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
