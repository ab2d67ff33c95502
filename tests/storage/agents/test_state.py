"""The narrow rows that supervisors own: looked at in one snapshot, moved under a guard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

import storage.postgres.pool
from storage.agents.agents import Agents
from storage.agents.state import AgentStates
from storage.agents.templates import Templates
from storage.errors import RowLocked
from storage.history.runs import Runs
from storage.history.traces import Traces
from storage.ids import new_id
from storage.model import (
    ActivationPeriod,
    Agent,
    AgentFacts,
    AgentState,
    AgentStatus,
    Counts,
    Outcome,
    PendingGroup,
    Priority,
    RunEnd,
    RunStart,
    Source,
    StateUpdate,
    SystemNotice,
)
from storage.notifications.notifications import Notifications
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from tests.storage.factories import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    new_notification,
    stored_agent,
    stored_organization,
    template,
)


@pytest.fixture
async def states(pool: Pool) -> AsyncIterator[AgentStates]:
    states = AgentStates(pool)
    yield states
    await states.close()


async def get_facts(states: AgentStates, of: Agent, now: datetime = NOW) -> AgentFacts:
    seen = await states.get_facts(of.id, now)
    assert seen is not None
    return seen


async def arrives(pool: Pool, at: Agent, **fields: Any) -> UUID:
    """A high notification; its id."""
    queue = Notifications(pool, lambda _: None, sleep=asyncio.sleep)
    new = new_notification(at.id, **fields)
    await queue.insert(new, {at.organization_id})
    await queue.close()
    return new.id


def start(before: AgentState, at: datetime = NOW, run_id: UUID | None = None) -> StateUpdate:
    run_id = run_id or new_id()
    after = replace(
        before,
        status=AgentStatus.RUNNING,
        run_id=run_id,
        run_started_at=at,
        last_started_at=at,
        stopped_at=None,
    )
    begun = RunStart(run_id, "run_requested", None, NOW + HOUR, at, "invoke_agent Scout")
    return StateUpdate(before, after, guarded=False, start=begun)


def end(before: AgentState, at: datetime = NOW + MINUTE, run_id: UUID | None = None) -> StateUpdate:
    after = replace(before, status=AgentStatus.SLEEPING, run_id=None, run_started_at=None, last_ended_at=at)
    run_id = run_id or before.run_id
    assert run_id is not None
    return StateUpdate(before, after, guarded=True, end=RunEnd(run_id, Outcome.SLEPT, at, 3, ""))


async def started(states: AgentStates, agent: Agent, at: datetime = NOW) -> AgentState:
    """The agent's state after a start."""
    assert await states.update(start((await get_facts(states, agent)).state, at))
    return (await get_facts(states, agent)).state


async def test_an_untouched_agent_is_asleep(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool, max_sleep_hours=8, debounce_window_seconds=0)

    assert await get_facts(states, agent) == AgentFacts(
        organization_id=agent.organization_id,
        state=AgentState(agent.id),
        created_at=NOW,
        name="Scout",
        paused=False,
        max_sleep_hours=8,
        agent_window_seconds=0,
        template_window_seconds=None,
    )


async def test_a_look_shows_the_templates_window_and_the_pause(states: AgentStates, pool: Pool) -> None:
    owner = await stored_organization(pool)
    shared = template(owner.id, debounce_window_seconds=60)
    await Templates(pool).insert(shared)
    agent = await stored_agent(pool, owner.id, template_id=shared.id)
    await pool.execute("UPDATE organization SET paused = true")

    seen = await get_facts(states, agent)

    assert (seen.agent_window_seconds, seen.template_window_seconds, seen.paused) == (None, 60, True)


async def test_an_agent_that_is_unknown_or_deleted_is_not_seen(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await Agents(pool).delete(agent.id, NOW)

    assert await states.get_facts(agent.id, NOW) is None
    assert await states.get_facts(new_id(), NOW) is None
    async with states.locked(agent.id, NOW) as locked:
        assert locked.facts is None


async def test_looks_at_once_are_answered_each_with_its_own(states: AgentStates, pool: Pool) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id, name=f"Scout {number}") for number in range(20)]

    seen = await asyncio.gather(*(states.get_facts(agent.id, NOW) for agent in [*agents, *agents]))

    assert [one and one.name for one in seen] == [f"Scout {number}" for number in range(20)] * 2


async def test_a_queue_is_seen_as_groups_of_a_kind(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    for later in (1, 5, 3):
        await arrives(pool, agent, source=Source.SMS, created_at=NOW + later * SECOND)
    await arrives(pool, agent, created_at=NOW)
    await arrives(pool, agent, priority=Priority.LOW)
    cleared = await arrives(pool, agent, source=Source.EMAIL)
    await Notifications(pool, lambda _: None, sleep=asyncio.sleep).clear(agent.id, cleared, NOW)

    seen = await get_facts(states, agent, NOW + MINUTE)

    assert set(seen.pending) == {
        PendingGroup(Source.SMS, False, ActivationPeriod.SINCE, 3, NOW + SECOND, NOW + 5 * SECOND),
        PendingGroup(Source.API, False, ActivationPeriod.SINCE, 1, NOW, NOW),
    }


async def test_a_reminder_is_ahead_until_its_moment(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await arrives(pool, agent, scheduled_for=NOW + MINUTE)
    await arrives(pool, agent, source=Source.EMAIL, scheduled_for=NOW - MINUTE)

    async def eras(now: datetime) -> dict[bool, ActivationPeriod]:
        return {group.reminder: group.period for group in (await get_facts(states, agent, now)).pending}

    # A time that had passed when it was given means now, so it is no reminder.
    assert await eras(NOW + MINUTE - SECOND) == {True: ActivationPeriod.AHEAD, False: ActivationPeriod.SINCE}
    assert await eras(NOW + MINUTE) == {True: ActivationPeriod.SINCE, False: ActivationPeriod.SINCE}


async def test_what_is_no_reminder_is_never_ahead_even_if_the_clock_was_set_back(
    states: AgentStates, pool: Pool
) -> None:
    agent = await stored_agent(pool)
    await arrives(pool, agent)

    [group] = (await get_facts(states, agent, NOW - HOUR)).pending

    assert group.period is ActivationPeriod.SINCE


@pytest.mark.parametrize(
    ("arrived_at", "period"),
    [
        (-30, ActivationPeriod.STOPPED),
        (-20, ActivationPeriod.STOPPED),
        (-5, ActivationPeriod.BEFORE),
        (0, ActivationPeriod.BEFORE),
        (30, ActivationPeriod.DURING),
        (61, ActivationPeriod.SINCE),
    ],
)
async def test_a_notification_belongs_to_an_era(
    states: AgentStates, pool: Pool, arrived_at: int, period: ActivationPeriod
) -> None:
    """Of an agent that was stopped at -20 s, and ran from 0 to 60 s."""
    agent = await stored_agent(pool)
    running = await started(states, agent)
    assert await states.update(end(running))
    await pool.execute("UPDATE agent_state SET stopped_at = $1", NOW - 20 * SECOND)
    await arrives(pool, agent, created_at=NOW + arrived_at * SECOND)

    [group] = (await get_facts(states, agent, NOW + HOUR)).pending

    assert group.period is period


async def test_a_start_begins_run_and_trace_with_what_is_active(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    active = [
        await arrives(pool, agent, created_at=NOW - SECOND),
        await arrives(pool, agent, created_at=NOW - 2 * SECOND),
    ]
    await arrives(pool, agent, priority=Priority.LOW)
    await arrives(pool, agent, scheduled_for=NOW + HOUR)

    state = await started(states, agent)

    assert state.run_id is not None
    run, trace = await Runs(pool).get(state.run_id), await Traces(pool).get(state.run_id)
    assert run is not None
    assert trace is not None
    assert run.notifications == (active[1], active[0])
    assert (run.wake_reason, run.started_at, run.max_sleep_until) == ("run_requested", NOW, NOW + HOUR)
    assert (run.ended_at, run.outcome, run.turns) == (None, None, 0)
    assert (trace.name, trace.started_at, trace.ended_at) == ("invoke_agent Scout", NOW, None)
    assert (await get_facts(states, agent)).pending_at_start == 2


async def test_an_end_closes_run_and_trace(states: AgentStates, pool: Pool) -> None:
    running = await started(states, await stored_agent(pool))
    assert running.run_id is not None

    assert await states.update(end(running))

    run, trace = await Runs(pool).get(running.run_id), await Traces(pool).get(running.run_id)
    assert run is not None
    assert trace is not None
    assert (run.ended_at, run.outcome, run.turns) == (NOW + MINUTE, Outcome.SLEPT, 3)
    assert trace.ended_at == NOW + MINUTE


@pytest.mark.parametrize("from_two_places", [False, True])
async def test_of_two_starts_of_an_agent_one_wins(
    states: AgentStates, pool: Pool, database_url: str, from_two_places: bool
) -> None:
    agent = await stored_agent(pool)
    seen = (await get_facts(states, agent)).state
    async with open_pool(DatabaseSettings(url=database_url), epoch=None) as other_pool:
        others = AgentStates(other_pool) if from_two_places else states

        won = await asyncio.gather(states.update(start(seen)), others.update(start(seen)))

        assert sorted(won) == [False, True]
        assert await pool.fetchval("SELECT count(*) FROM run") == 1
        if from_two_places:
            await others.close()


async def test_an_agent_that_was_archived_meanwhile_is_not_started(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    seen = (await get_facts(states, agent)).state
    assert await states.update(replace_guarded(seen, status=AgentStatus.ARCHIVED))

    assert not await states.update(start(seen))
    assert await pool.fetchval("SELECT count(*) FROM run") == 0


async def test_the_end_of_a_run_that_is_over_counts_for_nothing(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    first = await started(states, agent)
    assert await states.update(end(first))
    second = await started(states, agent, NOW + 2 * MINUTE)

    assert not await states.update(end(first, NOW + HOUR))

    assert (await get_facts(states, agent)).state == second
    assert first.run_id is not None
    over = await Runs(pool).get(first.run_id)
    assert over is not None
    assert over.ended_at == NOW + MINUTE


async def test_a_guarded_move_counts_for_nothing_once_something_became_active(
    states: AgentStates, pool: Pool
) -> None:
    agent = await stored_agent(pool)
    running = await started(states, agent)
    await arrives(pool, agent)

    assert not await states.update(end(running))
    assert (await get_facts(states, agent)).state.status is AgentStatus.RUNNING

    async with states.locked(agent.id, NOW) as locked:
        assert locked.facts is not None
        assert await locked.update(end(locked.facts.state))
    assert (await get_facts(states, agent)).state.status is AgentStatus.SLEEPING


async def test_a_move_does_not_set_back_what_whoever_notifies_has_bumped(
    states: AgentStates, pool: Pool
) -> None:
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state
    await arrives(pool, agent)

    assert await states.update(start(before))

    assert (await get_facts(states, agent)).state.wake_seq == 1


async def test_while_an_agent_is_locked_nothing_becomes_active(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    async with states.locked(agent.id, NOW) as locked:
        arrival = asyncio.create_task(arrives(pool, agent))
        assert locked.facts is not None
        before = locked.facts.state
        assert await locked.update(replace_guarded(before, sleep_until=NOW + HOUR))
        assert not arrival.done()
    await arrival

    state = (await get_facts(states, agent)).state
    assert (state.sleep_until, state.wake_seq) == (NOW + HOUR, before.wake_seq + 1)


def replace_guarded(before: AgentState, **fields: Any) -> StateUpdate:
    return StateUpdate(before, replace(before, **fields), guarded=True)


async def test_many_moves_at_once_are_each_judged_alone(states: AgentStates, pool: Pool) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id) for _ in range(30)]
    seen = [(await get_facts(states, agent)).state for agent in agents]
    for agent in agents[::3]:
        await arrives(pool, agent)

    moved = await asyncio.gather(
        *(states.update(replace_guarded(state, sleep_until=NOW + HOUR)) for state in seen)
    )

    assert moved == [number % 3 != 0 for number in range(30)]


async def test_of_two_moves_of_an_agent_at_once_only_the_one_that_was_made_is_told_so(
    states: AgentStates, pool: Pool
) -> None:
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state

    moved = await asyncio.gather(
        *(states.update(replace_guarded(before, sleep_until=NOW + hours * HOUR)) for hours in (1, 2))
    )

    assert moved == [True, False]
    assert (await get_facts(states, agent)).state.sleep_until == NOW + HOUR


@asynccontextmanager
async def held_by_somebody_else(database_url: str, *agents: Agent) -> AsyncIterator[None]:
    """Whoever moves these agents waits until the block is left."""
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        ids = [agent.id for agent in agents]
        await connection.execute("SELECT 1 FROM agent_state WHERE agent_id = ANY($1::uuid[]) FOR UPDATE", ids)
        yield
    await connection.close()


async def test_a_row_that_somebody_else_holds_delays_no_other_agents_move(
    states: AgentStates, pool: Pool, database_url: str
) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id) for _ in range(5)]
    seen = [(await get_facts(states, agent)).state for agent in agents]
    async with held_by_somebody_else(database_url, agents[2]):
        updates = [
            asyncio.create_task(states.update(replace_guarded(state, sleep_until=NOW + HOUR)))
            for state in seen
        ]
        held = updates.pop(2)
        async with asyncio.timeout(5):
            assert await asyncio.gather(*updates) == [True] * 4
        assert not held.done()
        late = (await get_facts(states, agents[0])).state
        assert await states.update(replace_guarded(late, sleep_until=NOW)), "nor does it delay the next batch"

    assert await held, "once the row is free the move is made"
    assert (await get_facts(states, agents[2])).state.sleep_until == NOW + HOUR


async def test_many_rows_that_somebody_else_holds_keep_nobody_from_the_database(
    states: AgentStates, pool: Pool, database_url: str
) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id) for _ in range(31)]
    *seen, free = [(await get_facts(states, agent)).state for agent in agents]

    async def lock(agent: Agent) -> None:
        async with states.locked(agent.id, NOW):
            pass

    async with held_by_somebody_else(database_url, *agents[:-1]):
        waiting = [
            *(asyncio.create_task(states.update(replace_guarded(state, sleep_until=NOW))) for state in seen),
            *(asyncio.create_task(lock(agent)) for agent in agents[:-1]),
        ]
        async with asyncio.timeout(3):
            assert await states.update(replace_guarded(free, sleep_until=NOW + HOUR))
            await lock(agents[-1])
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_move_gives_up_a_row_that_is_held_for_too_long(
    states: AgentStates, pool: Pool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.postgres.pool, "LIMIT_WAIT", "SET LOCAL lock_timeout = '10ms'")
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state
    async with held_by_somebody_else(database_url, agent), asyncio.timeout(5):
        with pytest.raises(RowLocked):
            await states.update(replace_guarded(before, sleep_until=NOW + HOUR))
        with pytest.raises(RowLocked):
            async with states.locked(agent.id, NOW):
                pass

    assert (await get_facts(states, agent)).state == before


async def test_every_field_that_is_moved_is_stored(states: AgentStates, pool: Pool) -> None:
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
        retry_at=NOW + 12 * SECOND,
        retry_reason="retry_after_failure",
        last_error="it broke",
        next_due_at=NOW + 13 * SECOND,
    )

    assert await states.update(StateUpdate(before, after, guarded=True))

    assert (await get_facts(states, agent)).state == after


async def test_what_is_due_is_listed_by_its_moment_in_pages(states: AgentStates, pool: Pool) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id, sleep_until=NOW + n // 2 * SECOND) for n in range(6)]
    await stored_agent(pool, owner.id)
    await stored_agent(pool, owner.id, sleep_until=NOW + HOUR)

    found: list[tuple[UUID, datetime]] = []
    while page := await states.list_due(NOW + MINUTE, (found[-1][1], found[-1][0]) if found else None, 4):
        found += page

    assert found == [(agent.id, NOW + n // 2 * SECOND) for n, agent in enumerate(agents)]


async def test_sleepers_with_something_active_are_listed(states: AgentStates, pool: Pool) -> None:
    owner = await stored_organization(pool)
    names = ("woken", "running", "stopped", "stopped, then told", "reminded later", "told something low")
    agents = {name: await stored_agent(pool, owner.id) for name in names}
    for name, agent in agents.items():
        match name:
            case "reminded later":
                await arrives(pool, agent, scheduled_for=NOW + HOUR)
            case "told something low":
                await arrives(pool, agent, priority=Priority.LOW)
            case _:
                await arrives(pool, agent)
    await started(states, agents["running"])
    for name, stopped_at in (("stopped", NOW), ("stopped, then told", NOW - SECOND)):
        before = (await get_facts(states, agents[name])).state
        assert await states.update(replace_guarded(before, stopped_at=stopped_at))

    expected = sorted((agents["woken"].id, agents["stopped, then told"].id))
    assert await states.list_attention(NOW + SECOND, None, 10) == expected
    assert await states.list_attention(NOW + SECOND, expected[0], 10) == expected[1:]
    assert await states.list_attention(NOW + SECOND, None, 1) == expected[:1]


async def test_running_and_queued_agents_are_listed_longest_first(states: AgentStates, pool: Pool) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id) for _ in range(4)]
    await started(states, agents[0], NOW + SECOND)
    await started(states, agents[1], NOW)
    for agent, queued_at in ((agents[2], NOW + SECOND), (agents[3], NOW)):
        before = (await get_facts(states, agent)).state
        assert await states.update(replace_guarded(before, queued_at=queued_at))

    assert await states.list_running() == [agents[1].id, agents[0].id]
    assert await states.list_queued() == [agents[3].id, agents[2].id]


async def test_blockers_are_what_is_active_oldest_first(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    later = await arrives(pool, agent, created_at=NOW)
    earlier = await arrives(pool, agent, created_at=NOW - MINUTE)
    fell_due = await arrives(pool, agent, created_at=NOW - HOUR, scheduled_for=NOW - SECOND)
    await arrives(pool, agent, scheduled_for=NOW + SECOND)
    await arrives(pool, agent, priority=Priority.LOW)

    assert await states.list_blockers(agent.id, NOW, 100) == [earlier, fell_due, later]
    assert await states.list_blockers(agent.id, NOW, 1) == [earlier]


async def test_agents_are_listed_by_id_of_all_or_of_one_organization(states: AgentStates, pool: Pool) -> None:
    ours = await stored_organization(pool)
    mine = sorted([(await stored_agent(pool, ours.id)).id for _ in range(3)])
    other = (await stored_agent(pool)).id

    assert await states.list_ids(None, None, 10) == sorted([*mine, other])
    assert await states.list_ids(ours.id, None, 2) == mine[:2]
    assert await states.list_ids(ours.id, mine[1], 2) == mine[2:]


async def test_forgotten_are_sleepers_with_something_active_and_nothing_ahead(
    states: AgentStates, pool: Pool
) -> None:
    stuck_agents, ahead, stopped, paused, running = [await stored_agent(pool) for _ in range(5)]
    later, low, overdue = [await stored_agent(pool) for _ in range(3)]
    for agent in (stuck_agents, ahead, stopped, paused, running, overdue):
        await arrives(pool, agent, created_at=NOW - MINUTE)
    await arrives(pool, later, created_at=NOW - MINUTE, scheduled_for=NOW + MINUTE)
    await arrives(pool, low, created_at=NOW - MINUTE, priority=Priority.LOW)
    await started(states, running)
    write = "UPDATE agent_state SET next_due_at = $2, stopped_at = $3 WHERE agent_id = $1"
    await pool.execute(write, ahead.id, NOW + MINUTE, None)
    await pool.execute(write, overdue.id, NOW - MINUTE, None)
    await pool.execute(write, stopped.id, None, NOW)
    await pool.execute("UPDATE organization SET paused = true WHERE id = $1", paused.organization_id)

    assert await states.list_stuck(NOW, 10) == sorted([stuck_agents.id, overdue.id])
    assert len(await states.list_stuck(NOW, 1)) == 1


async def test_as_many_are_counted_in_quarantine_as_the_rules_say(states: AgentStates, pool: Pool) -> None:
    agents = [await stored_agent(pool) for _ in range(QUARANTINE_AFTER_FAILURES + 2)]
    for failures, agent in enumerate(agents):
        await pool.execute(
            "UPDATE agent_state SET failures = $2, retry_at = $3 WHERE agent_id = $1",
            *(agent.id, failures, NOW + HOUR),
        )

    counts = await states.count(NOW, quarantine_failures=QUARANTINE_AFTER_FAILURES)
    assert counts.quarantined == {agent.id for agent in agents[5:]}

    stricter = await states.count(NOW, quarantine_failures=2)
    assert stricter.quarantined == {agent.id for agent in agents[2:]}

    await pool.execute("UPDATE organization SET paused = true WHERE id = $1", agents[6].organization_id)
    counts = await states.count(NOW, quarantine_failures=QUARANTINE_AFTER_FAILURES)
    assert counts.quarantined == {agents[5].id}


async def test_a_remark_goes_into_the_queue_with_its_move_or_not_at_all(
    states: AgentStates, pool: Pool
) -> None:
    agent = await stored_agent(pool)
    before = (await get_facts(states, agent)).state
    notice = SystemNotice(new_id(), "Quarantined", "It failed.", NOW)
    refused = replace(before, status=AgentStatus.ARCHIVED)
    select = "SELECT source, priority, title, body, created_at, activated_at FROM notification"

    assert not await states.update(StateUpdate(refused, before, guarded=True, notice=notice))
    assert await pool.fetch(select) == []
    assert await states.update(StateUpdate(before, before, guarded=True, notice=notice))
    [row] = await pool.fetch(select)
    assert tuple(row) == ("system", "low", "Quarantined", "It failed.", NOW, None)
    assert (await get_facts(states, agent)).state.wake_seq == before.wake_seq


async def test_counts_are_over_all_agents(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await stored_agent(pool, status=AgentStatus.ARCHIVED)
    await stored_agent(pool, sleep_until=NOW + HOUR)
    await started(states, await stored_agent(pool))
    await arrives(pool, agent, created_at=NOW - MINUTE)
    await arrives(pool, agent, scheduled_for=NOW + MINUTE)

    assert await states.count(NOW, quarantine_failures=QUARANTINE_AFTER_FAILURES) == Counts(
        running=1,
        sleeping=2,
        archived=1,
        quarantined=frozenset(),
        timers=2,
        next_due_at=NOW + MINUTE,
        oldest_active_at=NOW - MINUTE,
    )
