"""Templates: inserting, updating and deleting them."""

import asyncio
from decimal import Decimal

import pytest

from storage.agents.agents import Agents
from storage.agents.templates import Templates
from storage.errors import ReferenceMissing
from storage.ids import new_id
from storage.model import ReasoningEffort
from storage.postgres.pool import Pool
from tests.storage.factories import NOW, agent, stored_organization, template


@pytest.fixture
def templates(pool: Pool) -> Templates:
    return Templates(pool)


async def test_get_returns_template_as_inserted(templates: Templates, pool: Pool) -> None:
    written = template(
        (await stored_organization(pool)).id,
        default_reasoning_effort=ReasoningEffort.XHIGH,
        max_turns=2**31 - 1,
        tool_call_secret="whsec_1",
        max_cost_usd_per_day=Decimal("0.000001"),
    )
    await templates.insert(written)

    assert await templates.get(written.id) == written
    assert await templates.get(new_id()) is None


async def test_update_changes_only_the_given_columns(templates: Templates, pool: Pool) -> None:
    before = template((await stored_organization(pool)).id)
    await templates.insert(before)

    after = await templates.update(
        before.id, {"name": "Butler", "default_reasoning_effort": ReasoningEffort.LOW, "max_turns": 7}
    )

    assert after is not None
    assert (after.name, after.default_reasoning_effort, after.max_turns) == ("Butler", ReasoningEffort.LOW, 7)
    assert after.system_prompt == before.system_prompt
    assert await templates.get(before.id) == after


async def test_update_without_changes_returns_the_template(templates: Templates, pool: Pool) -> None:
    stored = template((await stored_organization(pool)).id)
    await templates.insert(stored)

    assert await templates.update(stored.id, {}) == stored


async def test_update_of_unknown_template_returns_none(templates: Templates) -> None:
    assert await templates.update(new_id(), {"name": "Butler"}) is None


async def test_update_refuses_names_of_other_columns(templates: Templates) -> None:
    with pytest.raises(ValueError, match="created_at, name = ''"):
        await templates.update(new_id(), {"created_at, name = ''": 1})


async def test_template_needs_an_existing_organization(templates: Templates) -> None:
    with pytest.raises(ReferenceMissing) as refusal:
        await templates.insert(template(new_id()))

    assert refusal.value.field == "organization"


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
