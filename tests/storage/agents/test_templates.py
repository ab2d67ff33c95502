"""Templates: deleting them while agents are inserted."""

import asyncio

import pytest

from storage.agents.agents import Agents
from storage.agents.templates import Templates
from storage.errors import ReferenceMissing
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, agent, stored_organization, template


@pytest.fixture
def templates(pool: Pool) -> Templates:
    return Templates(pool)


@pytest.mark.parametrize("detach", [False, True])
async def test_concurrent_delete_leaves_no_agent_with_deleted_template(
    templates: Templates, pool: Pool, detach: bool
) -> None:
    stored = template((await stored_organization(pool)).id)
    await templates.insert(stored)
    agents = Agents(pool)
    new_agents = [agent(stored.organization_id, template_id=stored.id) for _ in range(20)]

    async def delete_in_the_middle() -> None:
        if detach:
            await templates.delete_detaching(stored.id, NOW)
        else:
            await templates.delete_unused(stored.id)

    results = await asyncio.gather(
        *(agents.insert(new, None) for new in new_agents[:10]),
        delete_in_the_middle(),
        *(agents.insert(new, None) for new in new_agents[10:]),
        return_exceptions=True,
    )

    assert all(result is None or isinstance(result, ReferenceMissing) for result in results), results
    is_kept = await templates.get(stored.id) is not None
    users = await pool.fetchval("SELECT count(*) FROM agent WHERE template_id = $1", stored.id)
    assert is_kept == (users > 0)
    assert not (detach and is_kept)
