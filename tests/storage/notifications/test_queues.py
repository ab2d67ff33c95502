"""The queues of agents, as their tools read them."""

import asyncio

from storage.ids import new_id
from storage.model import Agent, Notification, Priority
from storage.notifications.notifications import Notifications
from storage.notifications.queues import MAX_BYTES, MAX_TITLE_CHARACTERS, SHARED_BYTES, RecentNotifications
from storage.postgres.paging import Chunk
from storage.postgres.pool import Pool
from tests.storage.factories import MINUTE, NOW, SECOND, stored_agent
from tests.storage.notifications.queues import LATER, stored_notification, updated_notification

LONG = "x" * (MAX_BYTES // 3)


async def read(queue: Notifications, at: Agent, *, include_cleared: bool = False) -> Chunk[Notification]:
    return await queue.list_for_agent(at.id, include_cleared=include_cleared, limit=100, now=LATER)


async def test_long_queue_is_cut_after_what_fits(queue: Notifications, scout: Agent) -> None:
    stored = [
        await stored_notification(queue, scout, body=LONG, created_at=NOW + n * SECOND) for n in range(4)
    ]
    low = await stored_notification(queue, scout, priority=Priority.LOW)

    first = await read(queue, scout)
    assert (first, first.is_cut) == (stored[:2], True)
    assert await read(queue, scout, include_cleared=True) == stored[:2]

    for notification in stored[:3]:
        await queue.clear(scout.id, notification.id, LATER)
    rest = await read(queue, scout)
    assert (rest, rest.is_cut) == ([stored[3], low], False)


async def test_notification_longer_than_the_bound_comes_alone(queue: Notifications, scout: Agent) -> None:
    longest = await stored_notification(queue, scout, body="x" * (MAX_BYTES + 1))
    await stored_notification(queue, scout, created_at=NOW + SECOND)

    chunk = await read(queue, scout)
    assert (chunk, chunk.is_cut) == ([longest], True)


async def test_concurrent_reads_get_whole_queues_of_any_length(
    queue: Notifications, pool: Pool, scout: Agent
) -> None:
    other, idle = await stored_agent(pool), await stored_agent(pool)
    long = [await stored_notification(queue, scout, body="x" * SHARED_BYTES) for _ in range(3)]
    short = await stored_notification(queue, other)

    of_scout, of_other, of_idle = await asyncio.gather(*(read(queue, at) for at in (scout, other, idle)))

    assert ({one.id for one in of_scout}, of_scout.is_cut) == ({one.id for one in long}, False)
    assert (of_other, of_idle) == ([short], [])


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


async def test_long_titles_are_cut(queue: Notifications, scout: Agent, pool: Pool) -> None:
    recent_notifications = RecentNotifications(pool)
    await stored_notification(queue, scout, title="é" * 100_000)

    [listed] = await recent_notifications.list_for_agent(scout.id, since=NOW, limit=9, now=LATER)

    assert listed.title == "é" * MAX_TITLE_CHARACTERS
