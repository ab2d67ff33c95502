"""The queue: reading, updating and deleting notifications."""

import asyncio
from typing import Any

from storage.model import Agent, Notification, Priority
from storage.notifications.notifications import NotificationFilters, Notifications
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from tests.storage.factories import (
    MINUTE,
    stored_agent,
    stored_organization,
)
from tests.storage.listed import listed_page
from tests.storage.notifications.queues import (
    LATER,
    stored_notification,
)


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
