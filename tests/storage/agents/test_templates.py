"""Templates are kept as given, and changed by the column."""

import asyncio
from decimal import Decimal

import pytest

from storage.agents.agents import Agents
from storage.agents.templates import Templates
from storage.errors import ReferenceMissing
from storage.ids import new_id
from storage.model import ReasoningEffort
from storage.postgres.pool import Pool
from tests.storage.factories import agent, stored_organization, template


@pytest.fixture
def templates(pool: Pool) -> Templates:
    return Templates(pool)


async def test_a_template_is_read_as_it_was_written(templates: Templates, pool: Pool) -> None:
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


async def test_only_what_is_named_changes(templates: Templates, pool: Pool) -> None:
    before = template((await stored_organization(pool)).id)
    await templates.insert(before)

    after = await templates.update(
        before.id, {"name": "Butler", "default_reasoning_effort": ReasoningEffort.LOW, "max_turns": 7}
    )

    assert after is not None
    assert (after.name, after.default_reasoning_effort, after.max_turns) == ("Butler", ReasoningEffort.LOW, 7)
    assert after.system_prompt == before.system_prompt
    assert await templates.get(before.id) == after


async def test_no_change_reads_the_template(templates: Templates, pool: Pool) -> None:
    stored = template((await stored_organization(pool)).id)
    await templates.insert(stored)

    assert await templates.update(stored.id, {}) == stored


async def test_an_unknown_template_is_not_updated(templates: Templates) -> None:
    assert await templates.update(new_id(), {"name": "Butler"}) is None


async def test_a_name_that_is_no_changeable_column_never_reaches_sql(templates: Templates) -> None:
    with pytest.raises(ValueError, match="created_at, name = ''"):
        await templates.update(new_id(), {"created_at, name = ''": 1})


async def test_a_template_needs_its_organization(templates: Templates) -> None:
    with pytest.raises(ReferenceMissing) as refusal:
        await templates.insert(template(new_id()))

    assert refusal.value.field == "organization"


@pytest.mark.parametrize("detach", [False, True])
async def test_no_agent_is_left_with_a_template_that_is_deleted_meanwhile(
    templates: Templates, pool: Pool, detach: bool
) -> None:
    stored = template((await stored_organization(pool)).id)
    await templates.insert(stored)
    agents = Agents(pool)
    recent_notifications = [agent(stored.organization_id, template_id=stored.id) for _ in range(20)]
    delete = templates.delete_detaching if detach else templates.delete_unused

    async def delete_in_the_middle() -> None:
        await delete(stored.id)

    results = await asyncio.gather(
        *(agents.insert(each, None) for each in recent_notifications[:10]),
        delete_in_the_middle(),
        *(agents.insert(each, None) for each in recent_notifications[10:]),
        return_exceptions=True,
    )

    assert all(result is None or isinstance(result, ReferenceMissing) for result in results), results
    is_kept = await templates.get(stored.id) is not None
    named = await pool.fetchval("SELECT count(*) FROM agent WHERE template_id = $1", stored.id)
    assert is_kept == (named > 0)
    assert not (detach and is_kept)
