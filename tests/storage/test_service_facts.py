"""Facts about the whole service: versions, nodes, phases and what has waited for the longest time."""

from storage.ids import new_id
from storage.model import AgentStatus
from storage.postgres.migrations import read_migrations
from storage.postgres.pool import Pool
from storage.service_facts import OldestActive, ServiceFacts
from tests.storage.agents.states import insert_high
from tests.storage.agents.test_overviews import put
from tests.storage.factories import HOUR, NOW, stored_agent, stored_organization, webhook

INSERT_WEBHOOK = """
INSERT INTO webhook (id, organization_id, url, description, types, tag, is_active, created_at, updated_at,
                     position, failing_since)
VALUES ($1, $2, 'https://example.org', '', '{*}', '', $3, $4, $4, 0, $4)
"""

INSERT_NODE = """
INSERT INTO node (life, name, version, protocol, roles, state, ended_at)
VALUES (gen_random_uuid(), '', '', 1, '{}', $1, $2) RETURNING id
"""
INSERT_RUN = """
INSERT INTO run (id, organization_id, agent_id, wake_reason, started_at, ended_at, outcome, node_id)
VALUES ($1, $2, $3, 'reminder', $4, $4, $5, $6)
"""


async def test_facts_name_the_versions(pool: Pool) -> None:
    facts = ServiceFacts(pool)
    assert facts.last is None
    await facts.refresh(NOW)
    assert facts.last is not None
    assert facts.last.postgresql.split(".")[0].isdigit()
    assert facts.last.schema_version == len(read_migrations())
    assert (facts.last.attended, facts.last.ended_nodes) == ({}, [])
    assert (facts.last.phases, facts.last.oldest_active) == ([], None)


async def test_facts_count_the_agents_that_each_node_attends(pool: Pool) -> None:
    for node_id in (None, 4, 4, 9):
        agent = await stored_agent(pool)
        await pool.execute("UPDATE agent_state SET node_id = $2 WHERE agent_id = $1", agent.id, node_id)
    facts = ServiceFacts(pool)
    await facts.refresh(NOW)
    assert facts.last is not None
    assert facts.last.attended == {4: 2, 9: 1}


async def test_facts_name_nodes_that_ended_within_a_day(pool: Pool) -> None:
    agent = await stored_agent(pool)
    nodes = [
        await pool.fetchval(INSERT_NODE, state, NOW - age)
        for state, age in (("dead", 25 * HOUR), ("dead", 2 * HOUR), ("dead", HOUR), ("alive", HOUR))
    ]
    for node_id, outcome in ((nodes[1], "interrupted"), (nodes[1], "slept"), (nodes[0], "interrupted")):
        await pool.execute(INSERT_RUN, new_id(), agent.organization_id, agent.id, NOW, outcome, node_id)
    facts = ServiceFacts(pool)
    await facts.refresh(NOW)
    assert facts.last is not None
    seen = [(node.id, node.ended_at, node.interrupted_runs) for node in facts.last.ended_nodes]
    assert seen == [(nodes[2], NOW - HOUR, 0), (nodes[1], NOW - 2 * HOUR, 1)]


async def test_facts_count_phases_apart_from_paused_organizations(pool: Pool) -> None:
    agent = await stored_agent(pool)
    await put(pool, agent, "holding")
    await stored_agent(pool, agent.organization_id)
    paused = await stored_agent(pool)
    await pool.execute("UPDATE organization SET paused = true WHERE id = $1", paused.organization_id)
    facts = ServiceFacts(pool)
    await facts.refresh(NOW)
    assert facts.last is not None
    assert sorted(facts.last.phases) == [(False, "", 2), (False, "holding", 1), (True, "", 1)]


async def test_facts_name_the_oldest_active_notification(pool: Pool) -> None:
    agent = await stored_agent(pool, name="Rosa")
    archived = await stored_agent(pool, agent.organization_id)
    await put(pool, archived, "archived", status=AgentStatus.ARCHIVED)
    await insert_high(pool, archived, created_at=NOW - 2 * HOUR)
    await insert_high(pool, agent, created_at=NOW - HOUR)
    facts = ServiceFacts(pool)
    await facts.refresh(NOW)
    assert facts.last is not None
    expected = OldestActive(agent.id, "Rosa", agent.organization_id, NOW - HOUR)
    assert facts.last.oldest_active == expected


async def test_facts_count_webhooks_that_fail(pool: Pool) -> None:
    owner = (await stored_organization(pool)).id
    for is_active in (True, False):
        await pool.execute(INSERT_WEBHOOK, webhook(owner).id, owner, is_active, NOW)
    facts = ServiceFacts(pool)
    await facts.refresh(NOW)
    assert facts.last is not None
    assert facts.last.failing_webhooks == 1
