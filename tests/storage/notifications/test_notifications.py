"""The queue: reading, updating and deleting notifications."""

import asyncio
from dataclasses import fields
from typing import Any

import pytest

from storage.agents.agents import Agents
from storage.ids import new_id
from storage.model import Agent, Notification, Priority, Source
from storage.notifications.inserts import NewNotification
from storage.notifications.notifications import NotificationFilters, Notifications
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    new_notification,
    stored_agent,
    stored_organization,
)
from tests.storage.listed import listed_page
from tests.storage.notifications.queues import (
    LATER,
    ReportedAgents,
    next_due_at,
    stored_notification,
    titles,
    updated_notification,
    wake_seq,
)

SENT = [field.name for field in fields(NewNotification)]


async def test_get_returns_notification_as_inserted(queue: Notifications, scout: Agent) -> None:
    sent = new_notification(
        scout.id,
        source=Source.SMS,
        source_id="contact-7",
        title="Grüße",
        body="line\nline",
        scheduled_for=NOW - HOUR,
    )
    await queue.insert(sent, {scout.organization_id})

    read = await queue.get(sent.id)

    assert read is not None
    assert read.organization_id == scout.organization_id
    assert {name: getattr(read, name) for name in SENT} == {name: getattr(sent, name) for name in SENT}
    assert await queue.get(new_id()) is None


async def test_waits_for_locked_notification_leave_connections_for_others(
    queue: Notifications, scout: Agent, other_program: Any
) -> None:
    free, held = await stored_notification(queue, scout), await stored_notification(queue, scout)
    async with other_program.transaction():
        await other_program.execute("UPDATE notification SET title = 'Held' WHERE id = $1", held.id)
        waiting = [
            asyncio.create_task(wait)
            for _ in range(15)
            for wait in (
                queue.update(held.id, {"title": "Free"}, NOW),
                queue.delete(held.id, NOW),
                queue.clear(scout.id, held.id, NOW),
                queue.clear_many(scout.id, [held.id], NOW),
            )
        ]
        async with asyncio.timeout(3):
            assert await queue.update(free.id, {"title": "Changed"}, NOW)
            assert await queue.delete(free.id, NOW)
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_inserts_and_updates_of_all_programs_never_deadlock(
    queue: Notifications, pool: Pool, other_program: Any
) -> None:
    owner = (await stored_organization(pool)).id
    agents = [await stored_agent(pool, owner) for _ in range(4)]
    stored = [await stored_notification(queue, agent, priority=Priority.LOW) for agent in agents * 5]

    async def raise_ours() -> None:
        for notification in stored:
            await queue.update(notification.id, {"priority": Priority.HIGH}, LATER)

    async def reschedule_theirs() -> None:
        for minutes in range(1, 20):
            await other_program.execute(
                "UPDATE notification SET scheduled_for = $1", LATER + minutes * MINUTE
            )

    async def insert_ours(at: Agent) -> None:
        for _ in range(50):
            await stored_notification(queue, at, body="late")

    await asyncio.gather(raise_ours(), reschedule_theirs(), *map(insert_ours, agents))

    late = await pool.fetchval("SELECT count(*) FROM notification WHERE body = 'late'")
    active = await pool.fetchval("SELECT count(*) FROM notification WHERE activated_at IS NOT NULL")
    assert (late, active) == (200, 220)


async def test_pages_by_cursor_show_each_notification_of_one_instant_once(
    queue: Notifications, scout: Agent
) -> None:
    stored = await asyncio.gather(*(stored_notification(queue, scout) for _ in range(7)))
    filters = NotificationFilters(organization_ids=(scout.organization_id,))

    listed: list[Notification] = []
    after = None
    while page := await listed_page(queue, Notification, filters, Page(after=after, limit=3)):
        listed += page
        after = (page[-1].created_at, page[-1].id)

    newest_first = sorted((notification.id for notification in stored), reverse=True)
    assert [notification.id for notification in listed] == newest_first
    assert await listed_page(queue, Notification, filters, Page(limit=3, offset=5)) == listed[5:]


async def test_page_filters_narrow_the_list(queue: Notifications, scout: Agent, pool: Pool) -> None:
    other = await stored_agent(pool, scout.organization_id)
    stranger = await stored_agent(pool)
    sms = await stored_notification(queue, scout, title="sms", source=Source.SMS)
    await stored_notification(queue, scout, title="low", priority=Priority.LOW, created_at=NOW + SECOND)
    await stored_notification(
        queue, other, title="later", scheduled_for=NOW + HOUR, created_at=NOW + 2 * SECOND
    )
    await stored_notification(queue, stranger, title="strange", created_at=NOW + 3 * SECOND)
    await queue.clear(scout.id, sms.id, LATER)

    assert await titles(queue, scout) == ["later", "low", "sms"]
    assert await titles(queue, scout, agent_id=scout.id) == ["low", "sms"]
    assert await titles(queue, scout, cleared=True) == ["sms"]
    assert await titles(queue, scout, cleared=False) == ["later", "low"]
    assert await titles(queue, scout, priority=Priority.LOW) == ["low"]
    assert await titles(queue, scout, source=Source.SMS, cleared=True, agent_id=scout.id) == ["sms"]
    assert await titles(queue, scout, agent_id=stranger.id) == []
    both = NotificationFilters(organization_ids=(scout.organization_id, stranger.organization_id))
    page = await listed_page(queue, Notification, both, Page(limit=2))
    assert [listed.title for listed in page] == ["strange", "later"]


async def test_concurrent_reads_each_get_their_own_queue(
    queue: Notifications, pool: Pool, scout: Agent
) -> None:
    other = await stored_agent(pool)
    mine = [await stored_notification(queue, scout, created_at=NOW + n * SECOND) for n in range(3)]
    theirs = await stored_notification(queue, other)
    await queue.clear(scout.id, mine[0].id, NOW)

    two, one, everything, none = await asyncio.gather(
        queue.list_for_agent(scout.id, include_cleared=False, limit=50, now=LATER),
        queue.list_for_agent(other.id, include_cleared=False, limit=50, now=LATER),
        queue.list_for_agent(scout.id, include_cleared=True, limit=2, now=LATER),
        queue.list_for_agent(new_id(), include_cleared=False, limit=50, now=LATER),
    )

    assert [notification.id for notification in two] == [mine[1].id, mine[2].id]
    assert [notification.id for notification in one] == [theirs.id]
    assert [notification.id for notification in everything] == [mine[0].id, mine[1].id]
    assert none == []


async def test_update_of_text_changes_nothing_else(
    queue: Notifications, scout: Agent, pool: Pool, reported: ReportedAgents
) -> None:
    before = await stored_notification(queue, scout)
    reported.take()

    after = await updated_notification(queue, before, LATER, title="Look there", body="Up")

    assert (after.title, after.body, after.activated_at) == ("Look there", "Up", NOW)
    assert await wake_seq(pool, scout) == 1
    assert reported.take() == []


async def test_update_that_clears_again_keeps_first_time(
    queue: Notifications, scout: Agent, pool: Pool, reported: ReportedAgents
) -> None:
    before = await stored_notification(queue, scout)
    reported.take()

    once = await updated_notification(queue, before, LATER, cleared=True)
    twice = await updated_notification(queue, before, LATER + HOUR, cleared=True)

    assert (once.cleared_at, once.activated_at) == (LATER, None)
    assert twice == once
    assert await wake_seq(pool, scout) == 1
    assert reported.take() == [scout.id]


async def test_unclearing_activates_notification_again(
    queue: Notifications, scout: Agent, pool: Pool, reported: ReportedAgents
) -> None:
    before = await stored_notification(queue, scout)
    await queue.clear(scout.id, before.id, NOW)
    reported.take()

    after = await updated_notification(queue, before, LATER, cleared=False)

    assert (after.cleared, after.cleared_at, after.activated_at) == (False, None, LATER)
    assert await wake_seq(pool, scout) == 2
    assert reported.take() == [scout.id]


async def test_priority_change_activates_and_deactivates_notification(
    queue: Notifications, scout: Agent, pool: Pool, reported: ReportedAgents
) -> None:
    before = await stored_notification(queue, scout, priority=Priority.LOW)

    high = await updated_notification(queue, before, LATER, priority=Priority.HIGH)
    assert high.activated_at == LATER
    assert await wake_seq(pool, scout) == 1
    low = await updated_notification(queue, before, LATER + HOUR, priority=Priority.LOW)

    assert low.activated_at is None
    assert await wake_seq(pool, scout) == 1
    assert reported.take() == [scout.id, scout.id]


async def test_rescheduled_reminder_is_due_at_its_new_time(
    queue: Notifications, scout: Agent, pool: Pool, reported: ReportedAgents
) -> None:
    before = await stored_notification(queue, scout, scheduled_for=NOW + HOUR)
    reported.take()

    earlier = await updated_notification(queue, before, NOW, scheduled_for=LATER)
    assert earlier.activated_at == LATER
    assert await next_due_at(pool, scout) == LATER
    same = await updated_notification(queue, before, NOW + SECOND, scheduled_for=LATER)
    assert same == earlier
    now_then = await updated_notification(queue, before, NOW + SECOND, scheduled_for=None)

    assert now_then.activated_at == NOW + SECOND
    assert await wake_seq(pool, scout) == 3
    assert reported.take() == [scout.id] * 4, "each time it is cleared where it was, and new where it is"


async def test_update_of_unchangeable_column_is_refused(queue: Notifications, scout: Agent) -> None:
    before = await stored_notification(queue, scout)

    with pytest.raises(ValueError, match="created_at, organization_id"):
        await queue.update(before.id, {"created_at": NOW, "organization_id": new_id()}, NOW)
    assert await queue.update(new_id(), {"title": "A"}, NOW) is None


async def test_queue_of_deleted_agent_is_not_found(queue: Notifications, scout: Agent, pool: Pool) -> None:
    before = await stored_notification(queue, scout)
    await Agents(pool).delete(scout.id, NOW)

    assert await queue.get(before.id) is None
    assert await titles(queue, scout) == []
    assert await queue.list_for_agent(scout.id, include_cleared=True, limit=9, now=LATER) == []
    assert await queue.update(before.id, {"title": "A"}, NOW) is None
    assert not await queue.clear(scout.id, before.id, NOW)
    assert not await queue.delete(before.id, NOW)
