"""Versions of system prompts: what keeps them, how many there are, and what deletes them."""

from datetime import datetime, timedelta

import pytest

from storage.agents.agents import Agents
from storage.agents.templates import Templates
from storage.postgres.pool import Pool
from storage.retention import LATE_WRITES, Retention
from storage.versions import Version, Versions
from tests.storage.factories import HOUR, NOW, agent, stored_organization, template


@pytest.fixture
def prompts(pool: Pool) -> Versions:
    return Versions(pool)


def version(number: int, author: str, created_at: datetime, text: str) -> Version:
    return Version(number, "", "text/plain", len(text), author, None, created_at, text)


async def test_change_keeps_earlier_prompt_with_its_author(pool: Pool, prompts: Versions) -> None:
    agents, scout = Agents(pool), agent((await stored_organization(pool)).id, system_prompt="Be kind.")
    await agents.insert(scout, None, actor="user:ada")
    await agents.update(scout.id, {"system_prompt": "Be brief.", "name": "Bee"}, NOW + HOUR, actor="key:k")
    later = NOW + 2 * HOUR
    await agents.update(scout.id, {"name": "Ant"}, later, actor="user:eve")
    await agents.update(scout.id, {"system_prompt": "Be brief."}, later, actor="user:eve")

    first = version(1, "user:ada", NOW, "Be kind.")
    second = version(2, "key:k", NOW + HOUR, "Be brief.")
    assert [await prompts.get(scout.id, number) for number in range(4)] == [None, first, second, None]
    listed = await prompts.list_all(scout.id)
    assert [(each.number, each.author) for each in listed] == [(2, "key:k"), (1, "user:ada")]


async def test_template_keeps_fifty_versions_until_it_is_deleted(pool: Pool, prompts: Versions) -> None:
    templates, desk = Templates(pool), template((await stored_organization(pool)).id)
    await templates.insert(desk)
    for number in range(2, 53):
        await templates.update(desk.id, {"system_prompt": f"Version {number}"}, NOW, actor="user:ada")

    assert [each.number for each in await prompts.list_all(desk.id)] == list(range(52, 2, -1))
    await templates.delete_unused(desk.id)
    assert await prompts.list_all(desk.id) == []


async def test_detached_agent_gets_prompt_of_its_template_as_a_version(pool: Pool, prompts: Versions) -> None:
    templates, agents, desk = Templates(pool), Agents(pool), template((await stored_organization(pool)).id)
    await templates.insert(desk)
    scout = agent(desk.organization_id, template_id=desk.id)
    await agents.insert(scout, None, actor="user:ada")

    await templates.delete_detaching(desk.id, NOW + HOUR, actor="user:eve")

    assert await prompts.get(scout.id, 2) == version(2, "user:eve", NOW + HOUR, "Be kind.")
    assert await prompts.get(scout.id, 1) == version(1, "user:ada", NOW, "")


async def test_versions_go_with_the_row_of_a_deleted_agent(pool: Pool, prompts: Versions) -> None:
    agents, retention = Agents(pool), Retention(pool)
    scout = agent((await stored_organization(pool)).id, system_prompt="Be kind.")
    await agents.insert(scout, None)
    await agents.update(scout.id, {"system_prompt": "Be brief."}, NOW)
    await agents.delete(scout.id, NOW)
    await retention.delete_leftovers(NOW + LATE_WRITES + timedelta(seconds=1), 10)

    assert await retention.delete_agents(NOW + HOUR, 10) == 1
    assert await pool.fetchval("SELECT count(*) FROM prompt_version") == 0
