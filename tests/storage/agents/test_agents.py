"""Agents: inserting, listing, updating and deleting them."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from storage.agents.agents import Agents, RetainedAgent
from storage.agents.lists import AgentFilters
from storage.agents.tags import MAX_TAGS_BYTES
from storage.agents.templates import Templates
from storage.delivery.outbox import Outbox, OutboxSize
from storage.errors import NotUnique, ParentCycle, ReferenceMissing, TooManyTags
from storage.history.runs import Runs
from storage.history.traces import TraceFilters, Traces
from storage.ids import new_id
from storage.model import Agent, AgentStatus, Outcome, Purpose
from storage.notifications.notifications import Notifications
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.retention import Retention
from tests.storage.factories import (
    HOUR,
    NOW,
    SECOND,
    agent,
    new_notification,
    notice,
    organization,
    pairs,
    stored_agent,
    stored_organization,
    template,
)
from tests.storage.listed import listed_page

INSERT_ADAPTER = (
    "INSERT INTO adapter (id, organization_id, name, visibility, created_at) VALUES ($1, $2, 'SMS', $3, $4)"
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


async def stored_adapter(pool: Pool, organization_id: UUID, visibility: str = "private") -> UUID:
    adapter_id = new_id()
    await pool.execute(INSERT_ADAPTER, adapter_id, organization_id, visibility, NOW)
    return adapter_id


async def names(agents: Agents, owner: UUID, page: Page | None = None, **filters: Any) -> list[str]:
    listed = await listed_page(agents, Agent, AgentFilters(organization_ids=(owner,), **filters), page)
    return [listed_agent.name for listed_agent in listed]


async def test_get_returns_agent_as_inserted(agents: Agents, pool: Pool, owner: UUID) -> None:
    parent = await stored_agent(pool, owner, name="Chief")
    concierge = template(owner)
    await Templates(pool).insert(concierge)
    adapters = (await stored_adapter(pool, owner), await stored_adapter(pool, owner))
    written = agent(
        owner,
        template_id=concierge.id,
        template_name=concierge.name,
        parent_id=parent.id,
        parent_name="Chief",
        adapters=adapters[::-1],
        tags=("b", "a"),
        email_alias="Scout.One",
        max_sleep_hours=0,
        debounce_window_seconds=0,
        reasoning_effort="high",
        purpose=Purpose.EVAL,
        sleep_until=NOW + HOUR,
        last_wake_reason="reminder",
        last_wake_interrupted_sleep_until=NOW,
        run_started_at=NOW,
    )

    await agents.insert(written, notice(parent))

    assert await agents.get(written.id) == written
    assert await agents.get_organization_id(written.id) == owner


async def test_agent_inserted_asleep_is_due_when_sleep_ends(pool: Pool, owner: UUID) -> None:
    asleep = await stored_agent(pool, owner, sleep_until=NOW + HOUR)
    archived = await stored_agent(pool, owner, status=AgentStatus.ARCHIVED, sleep_until=NOW + HOUR)

    due = await pairs(pool, "SELECT agent_id, next_due_at FROM agent_state")

    assert due == {asleep.id: NOW + HOUR, archived.id: None}


async def test_notice_about_child_leaves_parents_state_unchanged(
    agents: Agents, pool: Pool, owner: UUID
) -> None:
    parent = await stored_agent(pool, owner)

    await agents.insert(agent(owner, parent_id=parent.id), notice(parent))

    row = await pool.fetchrow("SELECT title, priority FROM notification WHERE agent_id = $1", parent.id)
    assert row is not None
    assert tuple(row) == ("Agent created", "low")
    assert await pool.fetchval("SELECT wake_seq FROM agent_state WHERE agent_id = $1", parent.id) == 0


async def test_email_alias_is_unique_in_any_case(agents: Agents, pool: Pool, owner: UUID) -> None:
    await stored_agent(pool, email_alias="scout")
    other = await stored_agent(pool, owner)

    with pytest.raises(NotUnique) as on_insert:
        await agents.insert(agent(owner, email_alias="SCOUT"), None)
    with pytest.raises(NotUnique) as on_update:
        await agents.update(other.id, {"email_alias": "Scout"}, NOW)

    assert on_insert.value.fields == on_update.value.fields == ("email_alias",)
    assert await agents.get(other.id) == other


@pytest.mark.parametrize(
    ("field", "value"), [("template", new_id()), ("parent", new_id()), ("adapters", (new_id(),))]
)
async def test_references_of_agent_must_exist(
    agents: Agents, pool: Pool, owner: UUID, field: str, value: Any
) -> None:
    column = field if field == "adapters" else f"{field}_id"
    stored = await stored_agent(pool, owner)

    with pytest.raises(ReferenceMissing) as on_insert:
        await agents.insert(agent(owner, **{column: value}), None)
    with pytest.raises(ReferenceMissing) as on_update:
        await agents.update(stored.id, {column: value}, NOW)

    assert on_insert.value.field == on_update.value.field == field


async def test_update_changes_only_the_given_columns(agents: Agents, pool: Pool, owner: UUID) -> None:
    before = await stored_agent(pool, owner, max_sleep_hours=5, tags=("old",))
    parent = await stored_agent(pool, owner, name="Chief")
    adapter = await stored_adapter(pool, owner)

    after = await agents.update(
        before.id,
        {
            "name": "Ranger",
            "max_sleep_hours": None,
            "tags": ["x", "y"],
            "parent_id": parent.id,
            "adapters": [adapter],
        },
        NOW,
    )

    assert after is not None
    assert (after.name, after.max_sleep_hours, after.tags) == ("Ranger", None, ("x", "y"))
    assert (after.parent_id, after.parent_name, after.adapters) == (parent.id, "Chief", (adapter,))
    assert after.model == before.model
    assert await agents.get(before.id) == after


async def test_update_replaces_and_removes_adapters(agents: Agents, pool: Pool, owner: UUID) -> None:
    first, second = await stored_adapter(pool, owner), await stored_adapter(pool, owner)
    stored = await stored_agent(pool, owner, adapters=(first, second))

    swapped = await agents.update(stored.id, {"adapters": [second, first]}, NOW)
    emptied = await agents.update(stored.id, {"adapters": []}, NOW)

    assert swapped is not None
    assert emptied is not None
    assert (swapped.adapters, emptied.adapters) == ((second, first), ())


async def test_update_of_unchangeable_column_is_refused(agents: Agents, pool: Pool) -> None:
    stored = await stored_agent(pool)

    with pytest.raises(ValueError, match="deleted_at, organization_id"):
        await agents.update(stored.id, {"organization_id": new_id(), "deleted_at": None}, NOW)


async def test_unknown_agent_is_not_found(agents: Agents) -> None:
    assert await agents.get(new_id()) is None
    assert await agents.get_organization_id(new_id()) is None
    assert await agents.update(new_id(), {"name": "Ranger"}, NOW) is None
    assert not await agents.delete(new_id(), NOW)


async def test_page_shows_given_organizations_newest_first(agents: Agents, pool: Pool) -> None:
    ours, also_ours, theirs = [(await stored_organization(pool)).id for _ in range(3)]
    for position, owner in enumerate((ours, also_ours, theirs, ours)):
        await stored_agent(pool, owner, name=str(position), created_at=NOW + position * SECOND)

    page = await listed_page(agents, Agent, AgentFilters(organization_ids=(ours, also_ours)))

    assert [listed.name for listed in page] == ["3", "1", "0"]
    assert await listed_page(agents, Agent, AgentFilters(organization_ids=())) == []


async def test_page_filters_narrow_the_list(agents: Agents, pool: Pool, owner: UUID) -> None:
    concierge = template(owner)
    await Templates(pool).insert(concierge)
    chief = await stored_agent(pool, owner, name="Chief 100%", template_id=concierge.id)
    await stored_agent(pool, owner, name="scout", parent_id=chief.id, tags=("a", "b"), purpose=Purpose.DEV)
    await stored_agent(pool, owner, name="sleeper", tags=("a",), status=AgentStatus.ARCHIVED)

    assert set(await names(agents, owner)) == {"Chief 100%", "scout"}
    assert set(await names(agents, owner, include_archived=True)) == {"Chief 100%", "scout", "sleeper"}
    assert await names(agents, owner, status=AgentStatus.ARCHIVED) == ["sleeper"]
    assert await names(agents, owner, status=AgentStatus.RUNNING) == []
    assert await names(agents, owner, purpose=Purpose.DEV) == ["scout"]
    assert await names(agents, owner, tags=("b", "a")) == ["scout"]
    assert await names(agents, owner, tags=("a",), include_archived=True, search="SLEEP") == ["sleeper"]
    assert await names(agents, owner, template_id=concierge.id) == ["Chief 100%"]
    assert await names(agents, owner, parent_id=chief.id) == ["scout"]
    assert await names(agents, owner, search="0%") == ["Chief 100%"]
    assert await names(agents, owner, search="_") == []


async def test_pages_by_cursor_show_agents_of_one_instant_once(
    agents: Agents, pool: Pool, owner: UUID
) -> None:
    stored = [await stored_agent(pool, owner) for _ in range(7)]
    filters = AgentFilters(organization_ids=(owner,))

    listed: list[Agent] = []
    after = None
    while page := await listed_page(agents, Agent, filters, Page(after=after, limit=3)):
        listed += page
        after = (page[-1].created_at, page[-1].id)

    assert [one.id for one in listed] == sorted((one.id for one in stored), reverse=True)
    assert await listed_page(agents, Agent, filters, Page(limit=3, offset=5)) == listed[5:]


async def test_deleted_agent_is_not_found(agents: Agents, pool: Pool, owner: UUID) -> None:
    deleted = await stored_agent(
        pool, owner, name="Chief", email_alias="chief", parent_id=(await stored_agent(pool, owner)).id
    )
    child = await stored_agent(pool, owner, parent_id=deleted.id)

    assert await agents.delete(deleted.id, NOW)

    assert await agents.get(deleted.id) is None
    assert await agents.get_organization_id(deleted.id) is None
    assert await agents.update(deleted.id, {"name": "Ghost"}, NOW) is None
    assert await names(agents, owner, search="Chief") == []
    assert not await agents.delete(deleted.id, NOW)
    orphan = await agents.get(child.id)
    assert orphan is not None
    assert (orphan.parent_id, orphan.parent_name) == (None, "")
    assert await pool.fetchval("SELECT count(*) FROM agent_state WHERE agent_id = $1", deleted.id) == 0
    await stored_agent(pool, owner, email_alias="Chief")


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


async def test_leftovers_of_deleted_agent_are_deleted_in_batches(
    agents: Agents, pool: Pool, owner: UUID
) -> None:
    deleted, kept = await stored_agent(pool, owner), await stored_agent(pool, owner)
    queue = Notifications(pool, lambda agent_ids: None, sleep=asyncio.sleep)
    for one in (deleted, deleted, deleted, kept):
        await queue.insert(new_notification(one.id), {owner})
        await pool.execute(START_RUN, one.id, new_id(), owner, NOW)
    await agents.delete(deleted.id, NOW)

    batches = [await Retention(pool).delete_leftovers(NOW, 2) for _ in range(4)]

    assert batches == [2, 2, 2, 0]
    assert [row["agent_id"] for row in await pool.fetch("SELECT agent_id FROM notification")] == [kept.id]
    assert [row["agent_id"] for row in await pool.fetch("SELECT agent_id FROM run")] == [kept.id]
    assert await pool.fetchval("SELECT count(*) FROM trace") == 4


async def test_agent_cannot_become_its_own_ancestor(agents: Agents, pool: Pool, owner: UUID) -> None:
    eldest = await stored_agent(pool, owner)
    parent = await stored_agent(pool, owner, parent_id=eldest.id)
    child = await stored_agent(pool, owner, parent_id=parent.id)

    for offspring in (eldest, parent, child):
        with pytest.raises(ParentCycle):
            await agents.update(eldest.id, {"parent_id": offspring.id}, NOW)


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


async def test_adapters_are_visible_to_owner_and_if_public_to_all(
    agents: Agents, pool: Pool, owner: UUID
) -> None:
    stranger = (await stored_organization(pool, name=organization().name)).id
    own, public = await stored_adapter(pool, owner), await stored_adapter(pool, stranger, "public")
    hidden, missing = await stored_adapter(pool, stranger), new_id()

    visible = await agents.get_adapter_visibility(owner, [own, public, hidden, missing])

    assert visible == {own: True, public: True, hidden: False}


async def test_template_lists_sleeping_agents_that_may_be_holding(
    agents: Agents, pool: Pool, owner: UUID
) -> None:
    concierge = template(owner)
    await Templates(pool).insert(concierge)
    notified = await stored_agent(pool, owner, template_id=concierge.id)
    without_template = await stored_agent(pool, owner)
    deleted = await stored_agent(pool, owner, template_id=concierge.id)
    await stored_agent(pool, owner, template_id=concierge.id, sleep_until=NOW + HOUR)
    queue = Notifications(pool, lambda _: None, sleep=asyncio.sleep)
    for one in (notified, without_template, deleted):
        await queue.insert(new_notification(one.id), {owner})
    await agents.delete(deleted.id, NOW)

    assert await agents.list_holding_of_template(concierge.id) == [notified.id]


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
