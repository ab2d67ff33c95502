"""The notifications that came since a given time."""

from storage.ids import new_id
from storage.model import Agent, Priority
from storage.notifications.notifications import Notifications
from storage.notifications.since import MAX_TITLE_CHARACTERS, RecentNotifications
from storage.postgres.pool import Pool
from tests.storage.factories import MINUTE, NOW
from tests.storage.notifications.queues import LATER, stored_notification, updated_notification


async def test_list_holds_latest_uncleared_notifications_since_given_time(
    queue: Notifications, scout: Agent, pool: Pool
) -> None:
    recent_notifications, long_ago = RecentNotifications(pool), NOW - 60 * MINUTE
    low = {"priority": Priority.LOW}
    await stored_notification(queue, scout, title="old", created_at=long_ago)
    raised = await stored_notification(queue, scout, title="raised", created_at=long_ago, **low)
    await updated_notification(queue, raised, NOW, priority=Priority.HIGH)
    await stored_notification(queue, scout, title="high")
    await stored_notification(queue, scout, title="low", **low)
    await stored_notification(queue, scout, title="due", created_at=long_ago, scheduled_for=NOW, **low)
    await stored_notification(queue, scout, title="for the past", scheduled_for=long_ago, **low)
    await stored_notification(queue, scout, title="ahead", scheduled_for=LATER + MINUTE)
    await queue.clear(scout.id, (await stored_notification(queue, scout, title="cleared")).id, LATER)

    async def listed(limit: int) -> list[str]:
        notifications = await recent_notifications.list_for_agent(
            scout.id, since=NOW - MINUTE, limit=limit, now=LATER
        )
        return sorted(notification.title for notification in notifications)

    assert await listed(100) == ["due", "for the past", "high", "low", "raised"]
    assert len(await listed(2)) == 2
    assert await recent_notifications.list_for_agent(new_id(), since=long_ago, limit=9, now=LATER) == []
    await recent_notifications.close()


async def test_long_titles_are_cut(queue: Notifications, scout: Agent, pool: Pool) -> None:
    recent_notifications = RecentNotifications(pool)
    await stored_notification(queue, scout, title="é" * 100_000)

    [listed] = await recent_notifications.list_for_agent(scout.id, since=NOW, limit=9, now=LATER)

    assert listed.title == "é" * MAX_TITLE_CHARACTERS
    await recent_notifications.close()
