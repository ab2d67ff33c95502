"""Agent states: facts read in one snapshot, and lists for the maintenance services."""

import asyncio

from storage.agent_facts import ActivationPeriod, AgentFacts, AgentState, Counts
from storage.agents.agents import Agents
from storage.agents.state import AgentStates
from storage.ids import new_id
from storage.model import AgentStatus, Priority
from storage.postgres.pool import Pool
from supervisors.policy.decisions import QUARANTINE_AFTER_FAILURES
from tests.storage.agents.states import get_facts, insert_high, started_state
from tests.storage.factories import HOUR, MINUTE, NOW, SECOND, stored_agent, stored_organization

PLANS = """
SELECT sum(custom_plans) FROM pg_prepared_statements WHERE statement LIKE '%template_window_seconds%'
"""


async def test_new_agent_is_asleep(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool, max_sleep_hours=8, debounce_window_seconds=0)

    assert await get_facts(states, agent) == AgentFacts(
        organization_id=agent.organization_id,
        state=AgentState(agent.id),
        created_at=NOW,
        name="Scout",
        organization_paused=False,
        max_sleep_hours=8,
        agent_window_seconds=0,
        template_window_seconds=None,
        model="builtin/inbox",
    )


async def test_unknown_or_deleted_agent_has_no_facts(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await Agents(pool).delete(agent.id, NOW)

    assert await states.get_facts(agent.id, NOW) is None
    assert await states.get_facts(new_id(), NOW) is None
    async with states.locked(agent.id, NOW) as locked:
        assert locked.facts is None


async def test_concurrent_reads_each_get_their_own_facts(states: AgentStates, pool: Pool) -> None:
    owner = await stored_organization(pool)
    agents = [await stored_agent(pool, owner.id, name=f"Scout {number}") for number in range(20)]

    facts = await asyncio.gather(*(states.get_facts(agent.id, NOW) for agent in [*agents, *agents]))

    assert [one and one.name for one in facts] == [f"Scout {number}" for number in range(20)] * 2


async def test_frequent_read_of_one_agent_is_not_planned_each_time(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    for _ in range(12):
        await get_facts(states, agent)

    # PostgreSQL plans a statement five times for its parameters before it compares.
    assert await pool.fetchval(PLANS) == 5


async def test_only_reminders_are_ahead_after_clock_was_set_back(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await insert_high(pool, agent)

    [group] = (await get_facts(states, agent, NOW - HOUR)).pending

    assert group.period is ActivationPeriod.SINCE


async def test_blockers_are_active_notifications_oldest_first(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    earlier = await insert_high(pool, agent, created_at=NOW - MINUTE)
    later = await insert_high(pool, agent, created_at=NOW)
    fell_due = await insert_high(pool, agent, created_at=NOW - HOUR, scheduled_for=NOW - SECOND)
    await insert_high(pool, agent, scheduled_for=NOW + SECOND)
    await insert_high(pool, agent, priority=Priority.LOW)

    assert await states.list_blockers(agent.id, NOW, 100) == [earlier, fell_due, later]
    assert await states.list_blockers(agent.id, NOW, 1) == [earlier]


async def test_ids_are_listed_for_all_or_one_organization(states: AgentStates, pool: Pool) -> None:
    ours = await stored_organization(pool)
    mine = sorted([(await stored_agent(pool, ours.id)).id for _ in range(3)])
    other = (await stored_agent(pool)).id

    assert await states.list_ids(None, None, 10) == sorted([*mine, other])
    assert await states.list_ids(ours.id, None, 2) == mine[:2]
    assert await states.list_ids(ours.id, mine[1], 2) == mine[2:]


async def test_stuck_have_active_notification_and_no_due_time(states: AgentStates, pool: Pool) -> None:
    stuck, ahead, stopped, paused, running = [await stored_agent(pool) for _ in range(5)]
    later, low, overdue = [await stored_agent(pool) for _ in range(3)]
    for agent in (stuck, ahead, stopped, paused, running, overdue):
        await insert_high(pool, agent, created_at=NOW - MINUTE)
    await insert_high(pool, later, created_at=NOW - MINUTE, scheduled_for=NOW + MINUTE)
    await insert_high(pool, low, created_at=NOW - MINUTE, priority=Priority.LOW)
    await started_state(states, running)
    write = "UPDATE agent_state SET next_due_at = $2, stopped_at = $3 WHERE agent_id = $1"
    await pool.execute(write, ahead.id, NOW + MINUTE, None)
    await pool.execute(write, overdue.id, NOW - MINUTE, None)
    await pool.execute(write, stopped.id, None, NOW)
    await pool.execute("UPDATE organization SET paused = true WHERE id = $1", paused.organization_id)

    assert await states.list_stuck(NOW, 10) == sorted([stuck.id, overdue.id])
    assert len(await states.list_stuck(NOW, 1)) == 1


async def test_count_takes_quarantine_threshold_as_parameter(states: AgentStates, pool: Pool) -> None:
    agents = [await stored_agent(pool) for _ in range(QUARANTINE_AFTER_FAILURES + 2)]
    for failures, agent in enumerate(agents):
        await pool.execute(
            "UPDATE agent_state SET failures = $2, retry_at = $3 WHERE agent_id = $1",
            *(agent.id, failures, NOW + HOUR),
        )

    counts = await states.count(NOW, quarantine_failures=QUARANTINE_AFTER_FAILURES)
    assert counts.quarantined == {agent.id for agent in agents[QUARANTINE_AFTER_FAILURES:]}

    stricter = await states.count(NOW, quarantine_failures=2)
    assert stricter.quarantined == {agent.id for agent in agents[2:]}

    await pool.execute("UPDATE organization SET paused = true WHERE id = $1", agents[6].organization_id)
    counts = await states.count(NOW, quarantine_failures=QUARANTINE_AFTER_FAILURES)
    assert counts.quarantined == {agents[5].id}


async def test_counts_are_over_all_agents(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    await stored_agent(pool, status=AgentStatus.ARCHIVED)
    await stored_agent(pool, sleep_until=NOW + HOUR)
    await started_state(states, await stored_agent(pool))
    await insert_high(pool, agent, created_at=NOW - MINUTE)
    await insert_high(pool, agent, scheduled_for=NOW + MINUTE)

    assert await states.count(NOW, quarantine_failures=QUARANTINE_AFTER_FAILURES) == Counts(
        running=1,
        sleeping=2,
        archived=1,
        quarantined=frozenset(),
        timers=2,
        next_due_at=NOW + MINUTE,
        oldest_active_at=NOW - MINUTE,
    )
