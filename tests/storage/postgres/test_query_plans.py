"""Query plans: the statements of a wake read the rows they concern, and few others.

In a database that has just grown PostgreSQL has no statistics yet. A plan that is good only with statistics
would read every agent for each notification. Plans cached before the growth are not tested here.
"""

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest

from storage.agent_facts import AgentFacts, RunStart, StateUpdate
from storage.agents.agents import Agents
from storage.agents.state import AgentStates
from storage.ids import new_id
from storage.model import Agent, AgentStatus
from storage.notifications.notifications import NotificationFilters, Notifications
from storage.notifications.queues import RecentNotifications
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, new_notification, stored_agent
from tests.storage.postgres.explaining_pool import ExplainingPool

pytestmark = pytest.mark.own_database

MANY = 3_000
SOME = 200  # may be read as a whole, but not once for each of those concerned
TOGETHER = 12
FEW = 20 * TOGETHER
STATEMENTS = ("insert", "facts", "start", "agent", "recent", "queue", "clear")

COPY_AGENT = """
INSERT INTO agent SELECT (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid()))).*
FROM agent a, generate_series(1, $1::integer) WHERE a.id = $2
"""

COPY_STATE = """
INSERT INTO agent_state
SELECT (jsonb_populate_record(s, jsonb_build_object('agent_id', a.id))).*
FROM agent_state s, agent a
WHERE s.agent_id = $1 AND NOT EXISTS (SELECT FROM agent_state WHERE agent_id = a.id)
"""

FILL_QUEUE = """
INSERT INTO notification (organization_id, agent_id, title, body, created_at)
SELECT organization_id, id, 'n' || n, 'x', now() + n * interval '1 ms' FROM agent, generate_series(1, $1) AS n
WHERE id = $2
"""


@pytest.fixture(params=[SOME, MANY])
async def crowded(pool: Pool, request: pytest.FixtureRequest) -> tuple[ExplainingPool, list[Agent]]:
    """Return a few of the hundreds or thousands of agents that were inserted at once."""
    first = await stored_agent(pool)
    others = [await stored_agent(pool, first.organization_id) for _ in range(TOGETHER - 1)]
    await pool.execute(COPY_AGENT, request.param, first.id)
    await pool.execute(COPY_STATE, first.id)
    return ExplainingPool(pool), [first, *others]


async def test_statements_of_a_wake_find_agents_by_id(
    crowded: tuple[ExplainingPool, list[Agent]],
) -> None:
    pool, agents = crowded
    notifications, states = (
        Notifications(pool, on_commit=lambda _: None, sleep=asyncio.sleep),
        AgentStates(pool),
    )
    all_agents, recent_notifications = Agents(pool), RecentNotifications(pool)

    async def wake_and_clear(agent: Agent) -> None:
        notification = new_notification(agent.id)
        await notifications.insert(notification, {agent.organization_id})
        assert await states.update(_start(await states.get_facts(agent.id, NOW)))
        assert await all_agents.get(agent.id) is not None
        await recent_notifications.list_for_agent(agent.id, since=NOW, limit=100, now=NOW)
        assert await notifications.list_for_agent(agent.id, include_cleared=False, limit=100, now=NOW)
        assert await notifications.clear(agent.id, notification.id, NOW)

    await asyncio.gather(*map(wake_and_clear, agents))

    wasteful = {sql: rows for sql, rows in pool.rows_touched.items() if rows > FEW}
    assert not wasteful, f"too many of {MANY} agents were read for {TOGETHER}: {wasteful}"
    assert len(pool.rows_touched) == len(STATEMENTS), "not every statement of a wake was explained"


async def test_scan_for_spent_budgets_reads_only_agents_with_caps(
    crowded: tuple[ExplainingPool, list[Agent]],
) -> None:
    pool, [first, spender, *_] = crowded
    await Agents(pool).update(first.id, {"max_cost_usd_per_day": Decimal(0)}, NOW)
    await Agents(pool).update(spender.id, {"max_cost_usd_per_day": Decimal(5)}, NOW)
    await pool.execute("INSERT INTO spending VALUES ($1, $2, 5)", spender.id, NOW.date())

    over = await AgentStates(pool).list_newly_over_budget(NOW, None, TOGETHER)

    assert over == sorted([first.id, spender.id])
    [rows] = pool.rows_touched.values()
    assert rows <= FEW, f"{rows} of {MANY} agents were read for {len(over)}"


async def test_chunk_of_a_list_is_read_along_its_index(
    crowded: tuple[ExplainingPool, list[Agent]],
) -> None:
    """The bound in bytes must not make a list read more than the rows that its page looks at."""
    pool, [first, *_] = crowded
    await pool.execute(FILL_QUEUE, MANY, first.id)
    notifications = Notifications(pool, on_commit=lambda _: None, sleep=asyncio.sleep)
    owners, rows = (first.organization_id,), 10

    filters = NotificationFilters(owners)
    chunk = await notifications.list_rows(filters, Page(limit=rows))
    last = chunk[-1]["created_at"], chunk[-1]["id"]
    rest = await notifications.list_rows(filters, Page(last, limit=rows, max_bytes=0))

    assert (len(chunk), len(rest), len(pool.rows_touched)) == (rows, 1, 2)
    wasteful = {sql: touched for sql, touched in pool.rows_touched.items() if touched > 2 * rows}
    assert not wasteful, f"too many of {MANY} rows were read for {rows}: {wasteful}"


def _start(facts: AgentFacts | None) -> StateUpdate:
    assert facts is not None
    before, run_id = facts.state, new_id()
    after = replace(before, status=AgentStatus.RUNNING, run_id=run_id, run_started_at=NOW)
    start = RunStart(run_id, "notification:api", None, NOW + HOUR, NOW, "invoke_agent Scout")
    return StateUpdate(before, after, guarded=True, start=start)
