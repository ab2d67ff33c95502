"""Agents: inserting, updating and deleting them."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from storage.agents.actions import MAX_TAGS_BYTES
from storage.agents.agents import Agents, RetainedAgent
from storage.agents.templates import Templates
from storage.delivery.outbox import Outbox, OutboxSize
from storage.errors import ParentCycle, TooManyTags
from storage.history.runs import Runs
from storage.history.traces import TraceFilters, Traces
from storage.ids import new_id
from storage.model import Outcome
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.toolbox import Adapters
from tests.storage.factories import (
    HOUR,
    NOW,
    adapter,
    agent,
    notice,
    stored_agent,
    stored_organization,
    template,
)

START_RUN = """
WITH started AS (UPDATE agent_state SET status = 'running', run_id = $2 WHERE agent_id = $1),
     run AS (INSERT INTO run (id, agent_id, organization_id, wake_reason, started_at)
             VALUES ($2, $1, $3, 'run_requested', $4))
INSERT INTO trace (id, agent_id, organization_id, name, started_at)
VALUES ($2, $1, $3, 'invoke_agent Scout', $4)
"""


@pytest.fixture
def agents(pool: Pool) -> Agents:
    return Agents(pool)


@pytest.fixture
async def owner(pool: Pool) -> UUID:
    return (await stored_organization(pool)).id


async def test_notice_about_child_leaves_parents_state_unchanged(
    agents: Agents, pool: Pool, owner: UUID
) -> None:
    parent = await stored_agent(pool, owner)

    await agents.insert(agent(owner, parent_id=parent.id), notice(parent))

    row = await pool.fetchrow("SELECT title, priority FROM notification WHERE agent_id = $1", parent.id)
    assert row is not None
    assert tuple(row) == ("Agent created", "low")
    assert await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", parent.id) == 0


async def test_update_replaces_and_removes_adapters(agents: Agents, pool: Pool, owner: UUID) -> None:
    weather, mail = adapter(owner), adapter(owner)
    for new in (weather, mail):
        await Adapters(pool).insert(new)
    first, second = weather.id, mail.id
    stored = await stored_agent(pool, owner, adapters=(first, second))

    swapped = await agents.update(stored.id, {"adapters": [second, first]}, NOW)
    emptied = await agents.update(stored.id, {"adapters": []}, NOW)

    assert swapped is not None
    assert emptied is not None
    assert (swapped.adapters, emptied.adapters) == ((second, first), ())


async def test_delete_ends_the_open_run_and_its_trace(agents: Agents, pool: Pool, owner: UUID) -> None:
    deleted = await stored_agent(pool, owner, name="Chief")
    run_id = new_id()
    await pool.execute(START_RUN, deleted.id, run_id, owner, NOW)

    await agents.delete(deleted.id, NOW + HOUR)

    run = await pool.fetchrow("SELECT outcome, error, ended_at FROM run")
    assert run is not None
    assert tuple(run) == (Outcome.STOPPED, "deleted", NOW + HOUR)
    trace = await Traces(pool).get(run_id)
    assert trace is not None
    assert (trace.error, trace.ended_at) == ("deleted", NOW + HOUR)
    [summary] = await Traces(pool).list_page([owner], TraceFilters(agent_id=deleted.id), Page())
    assert summary.agent_name == "Chief"
    assert await Runs(pool).get(run_id) is None


async def test_only_one_of_two_updates_that_form_circle_is_made(
    agents: Agents, pool: Pool, owner: UUID
) -> None:
    first, second = await stored_agent(pool, owner), await stored_agent(pool, owner)

    results = await asyncio.gather(
        agents.update(first.id, {"parent_id": second.id}, NOW),
        agents.update(second.id, {"parent_id": first.id}, NOW),
        return_exceptions=True,
    )

    assert [type(result) for result in results].count(ParentCycle) == 1


async def test_insert_stores_webhook_if_template_names_one(agents: Agents, pool: Pool, owner: UUID) -> None:
    url = "https://example.org/created"
    with_webhook, without_webhook = template(owner, agent_created_webhook_url=url), template(owner)
    for each in (with_webhook, without_webhook):
        await Templates(pool).insert(each)
        new = await stored_agent(pool, owner, template_id=each.id, tags=("a", "b"))
        if each is with_webhook:
            expected = new
    await stored_agent(pool, owner)

    [row] = await pool.fetch("SELECT * FROM webhook_delivery")
    assert (row["agent_id"], row["template_id"], row["url"]) == (expected.id, with_webhook.id, url)
    created_at = NOW.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert row["payload"] == {
        "type": "agent.created",
        "timestamp": created_at,
        "data": {
            "agent": str(expected.id),
            "template": str(with_webhook.id),
            "organization": str(owner),
            "name": expected.name,
            "tags": ["a", "b"],
            "purpose": "production",
            "created_at": created_at,
        },
    }
    outbox = Outbox(pool)
    await outbox.refresh_size()
    assert outbox.last_size == OutboxSize(pending=1, failed=0)


async def test_concurrent_tag_changes_are_all_made(agents: Agents, pool: Pool) -> None:
    stored = await stored_agent(pool, tags=("old", "kept"))
    names = [f"tag {number}" for number in range(10)]

    await asyncio.gather(
        *(agents.tag(stored.id, [name, "kept"], 12, NOW) for name in names),
        agents.untag(stored.id, ["old"], NOW),
    )

    changed = await agents.get(stored.id)
    assert changed is not None
    assert changed.tags[0] == "kept"
    assert sorted(changed.tags[1:]) == names
    assert changed == replace(stored, tags=changed.tags)


async def test_concurrent_tag_changes_do_not_pass_the_limit_together(agents: Agents, pool: Pool) -> None:
    stored = await stored_agent(pool, tags=("old", "kept"))

    results = await asyncio.gather(
        *(agents.tag(stored.id, [f"{n} a", f"{n} b", "kept"], 7, NOW) for n in range(5)),
        return_exceptions=True,
    )

    assert [type(result) for result in results].count(TooManyTags) == 3
    changed = await agents.get(stored.id)
    assert changed is not None
    assert len(changed.tags) == 6
    assert await agents.tag(new_id(), ["a"], 1, NOW) is None


async def test_tags_are_limited_in_bytes_as_well(agents: Agents, pool: Pool) -> None:
    stored = await stored_agent(pool)
    await agents.tag(stored.id, ["x" * (MAX_TAGS_BYTES - len('["",""]'))], 1000, NOW)
    with pytest.raises(TooManyTags):
        await agents.tag(stored.id, ["ab"], 1000, NOW)


async def test_deleted_agent_is_retained_by_name(agents: Agents, pool: Pool) -> None:
    scout = await stored_agent(pool, timezone="Europe/Berlin")
    await agents.delete(scout.id, NOW)

    retained = RetainedAgent(scout.organization_id, "Scout", "Europe/Berlin")
    assert await agents.get_retained(scout.id) == retained
    assert await agents.get_retained(new_id()) is None
