"""Overviews: what the agents of an organization do, and which of them need a person."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from storage.agents.overviews import ALL_PHASES, Overviews
from storage.ids import new_id
from storage.model import Agent, AgentStatus
from storage.postgres.pool import Pool
from tests.storage.agents.states import insert_high
from tests.storage.factories import HOUR, MINUTE, NOW, stored_agent, stored_organization, webhook
from tests.storage.postgres.explaining_pool import ExplainingPool

pytestmark = pytest.mark.own_database

SET_STATE = "UPDATE agent_state SET (phase, phase_since, status) = ($2, $3, $4) WHERE agent_id = $1"
SET_DUE = "UPDATE agent_state SET next_due_at = $2 WHERE agent_id = $1"
ADD_REMINDER = """
INSERT INTO notification (
    id, organization_id, agent_id, title, priority, created_at, scheduled_for, activated_at)
VALUES (gen_random_uuid(), $1, $2, $3, 'high', $4, $5, $5)
"""
FEW = 20
INSERT_WEBHOOK = """
INSERT INTO webhook (id, organization_id, url, description, types, tag, is_active, created_at, updated_at,
                     position, failing_since, disabled_at, disabled_reason)
VALUES ($1, $2, $3, '', '{*}', '', $4, $5, $5, 0, $6, $7, $8)
"""
INSERT_TOGETHER = """
WITH made AS (
    INSERT INTO agent (id, organization_id, name, model, created_at)
    VALUES (gen_random_uuid(), $1, 'Scout', 'm', now()) RETURNING id
)
INSERT INTO agent_state (agent_id) SELECT id FROM made RETURNING agent_id AS id
"""
FILL = """
WITH copy AS (
    INSERT INTO agent (id, organization_id, name, model, created_at)
    SELECT gen_random_uuid(), organization_id, 'Copy', 'm', $2
    FROM agent, generate_series(1, $1::integer) RETURNING id)
INSERT INTO agent_state (agent_id, next_due_at) SELECT id, $2 FROM copy
"""


@pytest.fixture
def overviews(pool: Pool) -> Overviews:
    return Overviews(pool)


async def put(
    pool: Pool, of: Agent, phase: str, since: datetime = NOW, status: AgentStatus = AgentStatus.SLEEPING
) -> None:
    await pool.execute(SET_STATE, of.id, phase, since, status)


async def counts(overviews: Overviews, *organization_ids: UUID) -> dict[tuple[UUID, str], int]:
    rows = await overviews.count_phases(organization_ids)
    return {(row.organization_id, row.phase): row.agents for row in rows}


async def test_phases_are_counted_for_each_organization(pool: Pool, overviews: Overviews) -> None:
    agent = await stored_agent(pool)
    owner = agent.organization_id
    other = await stored_agent(pool)
    await put(pool, await stored_agent(pool, owner), "holding")
    deleted = await stored_agent(pool, owner)
    await pool.execute("UPDATE agent SET deleted_at = $2 WHERE id = $1", deleted.id, NOW)
    await pool.execute("DELETE FROM agent_state WHERE agent_id = $1", deleted.id)
    await put(pool, other, "running", status=AgentStatus.RUNNING)
    assert await counts(overviews, owner) == {(owner, "holding"): 1, (owner, ALL_PHASES): 2}
    both = await counts(overviews, owner, other.organization_id)
    assert both[other.organization_id, "running"] == 1
    assert await counts(overviews) == {}


async def test_agents_in_phase_are_listed_longest_first(pool: Pool, overviews: Overviews) -> None:
    late = await stored_agent(pool, name="Late")
    early = await stored_agent(pool, late.organization_id, name="Early")
    await put(pool, late, "quarantined", NOW)
    await put(pool, early, "quarantined", NOW - HOUR)
    stranger = await stored_agent(pool)
    await put(pool, stranger, "quarantined", NOW - 2 * HOUR)
    listed = await overviews.list_in_phase([late.organization_id], "quarantined", 10)
    assert [(one.name, one.since) for one in listed] == [("Early", NOW - HOUR), ("Late", NOW)]
    assert len(await overviews.list_in_phase([late.organization_id], "quarantined", 1)) == 1
    assert await overviews.list_in_phase([late.organization_id], "over_budget", 10) == []


async def test_agent_due_for_long_is_forgotten_unless_queued(pool: Pool, overviews: Overviews) -> None:
    agent = await stored_agent(pool)
    queued = await stored_agent(pool, agent.organization_id)
    soon = await stored_agent(pool, agent.organization_id)
    stuck = await stored_agent(pool, agent.organization_id)
    await pool.execute(SET_DUE, agent.id, NOW - HOUR)
    await pool.execute(SET_DUE, queued.id, NOW - HOUR)
    await pool.execute("UPDATE agent_state SET queued_at = $2 WHERE agent_id = $1", queued.id, NOW)
    await pool.execute(SET_DUE, soon.id, NOW)
    stranger = await stored_agent(pool)
    listed = await overviews.list_forgotten(
        [agent.organization_id], NOW - MINUTE, {stuck.id, stranger.id, new_id()}, 10
    )
    assert {one.agent_id: one.since for one in listed} == {
        agent.id: NOW - HOUR,
        stuck.id: stuck.created_at,
    }


async def test_oldest_uncleared_notification_of_each_agent_is_listed(
    pool: Pool, overviews: Overviews
) -> None:
    running = await stored_agent(pool)
    owner = running.organization_id
    stopped, idle, archived = [await stored_agent(pool, owner) for _ in range(3)]
    await put(pool, running, "running", status=AgentStatus.RUNNING)
    await put(pool, archived, "archived", status=AgentStatus.ARCHIVED)
    for agent, created_at in ((running, NOW - HOUR), (stopped, NOW - 2 * HOUR), (archived, NOW - HOUR)):
        await insert_high(pool, agent, created_at=created_at)
    await insert_high(pool, running, created_at=NOW)
    await insert_high(pool, idle, created_at=NOW)
    await pool.execute("UPDATE agent_state SET stopped_at = $2 WHERE agent_id = $1", stopped.id, NOW)
    listed = await overviews.list_uncleared([owner], NOW - MINUTE, 10)
    assert [(one.agent_id, one.since) for one in listed] == [
        (stopped.id, NOW - 2 * HOUR),
        (running.id, NOW - HOUR),
    ]


async def test_next_reminder_of_each_agent_is_listed(pool: Pool, overviews: Overviews) -> None:
    agent = await stored_agent(pool)
    other = await stored_agent(pool, agent.organization_id)
    for title, due_at in (("Past", NOW - HOUR), ("Second", NOW + 2 * HOUR), ("First", NOW + HOUR)):
        await pool.execute(ADD_REMINDER, agent.organization_id, agent.id, title, NOW - 2 * HOUR, due_at)
    await insert_high(pool, other, created_at=NOW)
    [reminder] = await overviews.list_next_reminders([agent.id, other.id], NOW)
    assert reminder == (agent.id, NOW + HOUR, "First")


async def test_paused_organizations_tell_since_when(pool: Pool, overviews: Overviews) -> None:
    paused = await stored_organization(pool, name="Rosa")
    await pool.execute("UPDATE organization SET paused = true WHERE id = $1", paused.id)
    running = await stored_organization(pool)
    insert = "INSERT INTO event (at, type, organization_id) VALUES ($1, 'organization.paused', $2)"
    [one] = await overviews.list_paused([paused.id, running.id])
    assert (one.organization_id, one.name, one.since) == (paused.id, "Rosa", None)
    await pool.execute(insert, NOW - HOUR, paused.id)
    await pool.execute(insert, NOW, paused.id)
    [one] = await overviews.list_paused([paused.id, running.id])
    assert one.since == NOW
    await pool.execute("UPDATE instance SET paused_at = $1, paused_because = 'it was restored'", NOW + HOUR)
    [one, other] = await overviews.list_paused([paused.id, running.id])
    assert (one.since, one.is_itself) == (NOW, True)
    assert (other.organization_id, other.since, other.is_itself) == (running.id, NOW + HOUR, False)
    assert other.because == "it was restored"


async def test_failing_and_disabled_webhooks_are_listed(pool: Pool, overviews: Overviews) -> None:
    owner = (await stored_organization(pool)).id
    states: dict[str, tuple[Any, ...]] = {
        "well": (True, NOW, None, None, ""),
        "off": (False, NOW, None, None, ""),
        "off-after-failure": (False, NOW, NOW, None, ""),
        "failing": (True, NOW, NOW - HOUR, None, ""),
        "disabled": (False, NOW, NOW - HOUR, NOW, "It answered 410."),
    }
    for name, state in states.items():
        url = f"https://{name}.example"
        await pool.execute(INSERT_WEBHOOK, webhook(owner).id, owner, url, *state)
    listed = await overviews.list_failing_webhooks([owner], 10)
    assert [(one.url, one.since, one.is_disabled) for one in listed] == [
        ("https://failing.example", NOW - HOUR, False),
        ("https://disabled.example", NOW, True),
    ]
    assert await overviews.list_failing_webhooks([owner], 1) == listed[:1]
    assert await overviews.list_failing_webhooks([new_id()], 10) == []


async def test_state_inserted_by_other_program_belongs_to_the_organization(pool: Pool) -> None:
    agent = await stored_agent(pool)
    [row] = await pool.fetch(INSERT_TOGETHER, agent.organization_id)
    owner = await pool.fetchval("SELECT organization_id FROM agent_state WHERE agent_id = $1", row["id"])
    assert owner == agent.organization_id


@pytest.mark.parametrize("has_statistics", [True, False])
async def test_overview_reads_few_rows_among_many(pool: Pool, has_statistics: bool) -> None:
    agent = await stored_agent(pool)
    await pool.execute(FILL, 3_000, NOW + HOUR)
    mine = await stored_agent(pool)
    await put(pool, mine, "quarantined")
    if has_statistics:
        await pool.execute("ANALYZE")
    explaining = ExplainingPool(pool)
    overviews, owners = Overviews(explaining), [mine.organization_id]
    await overviews.count_phases(owners)
    await overviews.list_in_phase(owners, "quarantined", 10)
    await overviews.list_forgotten(owners, NOW, {mine.id}, 10)
    await overviews.list_uncleared(owners, NOW, 10)
    await overviews.list_waking(owners, NOW + 2 * HOUR, 10)
    await overviews.count_waking(owners, NOW + 2 * HOUR)
    await overviews.list_waking([agent.organization_id], NOW + 2 * HOUR, 10)
    assert {sql: rows for sql, rows in explaining.rows_touched.items() if rows > FEW} == {}
