"""Sorted lists of agents: each order, its pages, and values that change between two pages."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from storage.agents.filters import AgentFilters, AgentRow, AgentSort, Position, SortedAgents, SortedPage
from storage.model import Agent, AgentStatus, Priority
from storage.notifications.notifications import Notifications
from storage.postgres.pool import Pool
from supervisors.clock import SystemClock
from tests.storage.factories import HOUR, NOW, new_notification, stored_agent, stored_organization

DAY = NOW.date()
SPEND = "INSERT INTO spending (owner_id, day, cost_usd) VALUES ($1, $2, $3)"
SET_DUE = "UPDATE agent_state SET next_due_at = $2 WHERE agent_id = $1"
SET_PHASE = "UPDATE agent_state SET phase = $2 WHERE agent_id = $1"
PAUSE = "UPDATE organization SET paused = true WHERE id = $1"


@pytest.fixture
async def owner(pool: Pool) -> UUID:
    return (await stored_organization(pool)).id


@pytest.fixture
def sorted_agents(pool: Pool) -> SortedAgents:
    return SortedAgents(pool)


async def stored_agents(pool: Pool, owner: UUID, *names: str, **fields: Any) -> list[Agent]:
    """Store agents with these names, each created a second after the one before it."""
    return [
        await stored_agent(pool, owner, name=name, created_at=NOW + timedelta(seconds=number), **fields)
        for number, name in enumerate(names)
    ]


async def spend(pool: Pool, agent: Agent, cost: str, days_ago: int = 0) -> None:
    await pool.execute(SPEND, agent.id, DAY - timedelta(days=days_ago), Decimal(cost))


async def notify(pool: Pool, agent: Agent, count: int, **fields: Any) -> None:
    notifications = Notifications(pool, on_commit=lambda _: None, sleep=SystemClock().sleep)
    for _ in range(count):
        await notifications.insert(new_notification(agent.id, **fields), {agent.organization_id})


async def pages(
    listed: SortedAgents, filters: AgentFilters, sort: AgentSort, limit: int, **page: Any
) -> list[AgentRow]:
    """Return the rows of all pages, each read after the position of the last row."""
    rows: list[AgentRow] = []
    after: Position | None = None
    while chunk := await listed.list_page(filters, sort, SortedPage(NOW, after, limit, **page)):
        rows += chunk
        after = chunk[-1].position
    return rows


async def fill_every_order(pool: Pool, owner: UUID) -> None:
    """Store seven agents, some of them with a value of each order, and some values equal."""
    *_, due, later, dear, busy = await stored_agents(pool, owner, "b", "A", "a", "d", "E", "c", "f")
    for agent in (due, later):
        await pool.execute(SET_DUE, agent.id, NOW + HOUR)
        await spend(pool, agent, "0.5")
    await pool.execute(SET_DUE, dear.id, NOW)
    await spend(pool, dear, "2.000001")
    await spend(pool, busy, "9", days_ago=1)
    await notify(pool, busy, 3)
    await notify(pool, due, 1)
    await notify(pool, later, 1)
    await notify(pool, dear, 5, scheduled_for=NOW + HOUR)
    await notify(pool, dear, 5, priority=Priority.LOW)


ORDERS = {
    AgentSort.NEWEST: "fcEdaAb",
    AgentSort.NAME: "aAbcdEf",
    AgentSort.NEXT_WAKE: "cEdfaAb",
    AgentSort.COST: "cEdfaAb",
    AgentSort.UNCLEARED: "fEdcaAb",
}


@pytest.mark.parametrize("sort", AgentSort)
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_of_every_order_join_without_gaps(
    pool: Pool, owner: UUID, sorted_agents: SortedAgents, sort: AgentSort, limit: int
) -> None:
    await stored_agent(pool)
    await fill_every_order(pool, owner)

    rows = await pages(sorted_agents, AgentFilters((owner,)), sort, limit)

    assert "".join(row.name for row in rows) == ORDERS[sort]


@pytest.mark.parametrize("sort", AgentSort)
async def test_page_that_is_cut_by_bytes_leads_on(
    pool: Pool, owner: UUID, sorted_agents: SortedAgents, sort: AgentSort
) -> None:
    await fill_every_order(pool, owner)
    filters = AgentFilters((owner,))

    first = await sorted_agents.list_page(filters, sort, SortedPage(NOW, max_bytes=0))
    rows = await pages(sorted_agents, filters, sort, 100, max_bytes=0)

    assert len(first) <= 2
    assert first.is_cut
    assert "".join(row.name for row in rows) == ORDERS[sort]


async def test_value_that_changes_between_pages_moves_its_agent_only(
    pool: Pool, owner: UUID, sorted_agents: SortedAgents
) -> None:
    agents = await stored_agents(pool, owner, "a", "b", "c", "d")
    for agent, cost in zip(agents, ("4", "3", "2", "1"), strict=True):
        await spend(pool, agent, cost)
    filters = AgentFilters((owner,))
    first = await sorted_agents.list_page(filters, AgentSort.COST, SortedPage(NOW, limit=2))
    await pool.execute("UPDATE spending SET cost_usd = 2.5 WHERE owner_id = $1", agents[1].id)
    await pool.execute("UPDATE spending SET cost_usd = 5 WHERE owner_id = $1", agents[2].id)

    rest = await sorted_agents.list_page(
        filters, AgentSort.COST, SortedPage(NOW, first[-1].position, limit=9)
    )

    assert [row.name for row in first] == ["a", "b"]
    assert [row.name for row in rest] == ["b", "d"]


async def test_count_stops_at_its_limit(pool: Pool, owner: UUID, sorted_agents: SortedAgents) -> None:
    await stored_agents(pool, owner, "a", "b", "c")
    await stored_agent(pool, owner, name="d", status=AgentStatus.ARCHIVED)
    counts = [
        await sorted_agents.count(AgentFilters((owner,)), 10),
        await sorted_agents.count(AgentFilters((owner,), include_archived=True), 10),
        await sorted_agents.count(AgentFilters((owner,), search="B"), 10),
        await sorted_agents.count(AgentFilters((owner,)), 2),
    ]
    assert counts == [3, 4, 1, 2]


async def test_phase_filter_sees_pauses_of_agents_and_organizations(
    pool: Pool, owner: UUID, sorted_agents: SortedAgents
) -> None:
    held, running, archived, own = await stored_agents(pool, owner, "held", "running", "archived", "own")
    for agent, phase, status in (
        (held, "holding", "sleeping"),
        (running, "running", "running"),
        (archived, "archived", "archived"),
        (own, "paused", "sleeping"),
    ):
        await pool.execute(SET_PHASE, agent.id, phase)
        await pool.execute("UPDATE agent_state SET status = $2 WHERE agent_id = $1", agent.id, status)
    await pool.execute("UPDATE agent_state SET run_id = agent_id WHERE agent_id = $1", running.id)
    await pool.execute("UPDATE agent_state SET paused = true WHERE agent_id = $1", own.id)

    async def names(phase: str) -> list[str]:
        filters = AgentFilters((owner,), phase=phase)
        listed = await sorted_agents.list_page(filters, AgentSort.NEWEST, SortedPage(NOW))
        return [row.name for row in listed]

    phases = ("holding", "running", "archived", "paused", "stopping")
    before = {phase: await names(phase) for phase in phases}
    await pool.execute(PAUSE, owner)
    after = {phase: await names(phase) for phase in phases}

    assert before == {
        "holding": ["held"],
        "running": ["running"],
        "archived": ["archived"],
        "paused": ["own"],
        "stopping": [],
    }
    assert after == {
        "holding": [],
        "running": [],
        "archived": ["archived"],
        "paused": ["own", "held"],
        "stopping": ["running"],
    }
