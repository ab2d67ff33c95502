"""The events of agents: creation, changed fields, deletion, and what a template leaves them."""

import pytest

from storage.agents.agents import Agents
from storage.agents.templates import Templates
from storage.ids import new_id
from storage.model import Agent
from storage.postgres.pool import Pool
from tests.storage.events.recorded import forget_events, list_events, logged
from tests.storage.factories import HOUR, NOW, agent, notice, stored_agent, template

INSERT_HOOK = """
INSERT INTO hook (id, organization_id, name, agent_id, verify, header, algorithm, encoding, prefix,
                  title, body, source, priority, created_at, updated_at, secret, old_secret)
VALUES (gen_random_uuid(), $1, 'Push', $2, 'none', '', '', '', '',
        '', '', 'api', 'high', now(), now(), '', '')
"""
KEY = f"key:{new_id()}"


@pytest.fixture
async def scout(pool: Pool) -> Agent:
    stored = await stored_agent(pool)
    await forget_events(pool)
    return stored


async def test_change_names_fields_as_the_api_does(pool: Pool, scout: Agent) -> None:
    agents = Agents(pool)
    parent = await stored_agent(pool, scout.organization_id)
    await forget_events(pool)
    changes = {"name": "Ranger", "model": scout.model, "parent_id": parent.id, "adapters": []}
    await agents.update(scout.id, changes, NOW, actor=KEY)
    await agents.update(scout.id, changes, NOW, actor=KEY)  # nothing changes
    await agents.update(new_id(), changes, NOW, actor=KEY)

    assert await logged(pool, "agent") == [("agent.changed", KEY, {"fields": ["name", "parent"]})]
    [event] = await list_events(pool, "agent")
    assert (event["at"], event["agent_id"]) == (NOW, scout.id)


async def test_deletion_is_recorded_once_and_children_lose_their_parent(pool: Pool, scout: Agent) -> None:
    agents = Agents(pool)
    child = agent(scout.organization_id, parent_id=scout.id)
    await agents.insert(child, notice(scout))
    for _ in range(2):
        await pool.execute(INSERT_HOOK, scout.organization_id, scout.id)
    await forget_events(pool)
    assert await agents.delete(scout.id, NOW + HOUR, actor=KEY)
    assert not await agents.delete(scout.id, NOW + HOUR, actor=KEY)

    events = await list_events(pool, "agent")
    assert [(event["type"], event["agent_id"], event["actor"]) for event in events] == [
        ("agent.deleted", scout.id, KEY),
        ("agent.changed", child.id, KEY),
    ]
    assert events[0]["data"] == {"name": scout.name, "deleted_with": {"hook": 2}}
    assert events[1]["data"] == {"fields": ["parent"]}
    assert await list_events(pool, "notification") == []


async def test_detached_agents_are_recorded_as_changed(pool: Pool, scout: Agent) -> None:
    desk = template(scout.organization_id)
    await Templates(pool).insert(desk)
    user = agent(scout.organization_id, template_id=desk.id)
    await Agents(pool).insert(user, None)
    await forget_events(pool)
    await Templates(pool).delete_detaching(desk.id, NOW, actor=KEY)

    [event] = await list_events(pool, "agent")
    assert (event["type"], event["agent_id"], event["actor"]) == ("agent.changed", user.id, KEY)
    assert event["data"] == {"fields": ["template"]}
