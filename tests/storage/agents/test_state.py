"""Agent states: facts read in one snapshot, and lists for the maintenance services."""

from storage.agents.state import AgentStates
from storage.model import Priority
from storage.postgres.pool import Pool
from tests.storage.agents.states import get_facts, insert_high, started_state
from tests.storage.factories import MINUTE, NOW, stored_agent

PLANS = """
SELECT sum(custom_plans) FROM pg_prepared_statements WHERE statement LIKE '%template_window_seconds%'
"""


async def test_frequent_read_of_one_agent_is_not_planned_each_time(states: AgentStates, pool: Pool) -> None:
    agent = await stored_agent(pool)
    for _ in range(12):
        await get_facts(states, agent)

    # PostgreSQL plans a statement five times for its parameters before it compares.
    assert await pool.fetchval(PLANS) == 5


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
