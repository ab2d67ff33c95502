"""Clearing notifications, one by one and many at once."""

import asyncio
from typing import Any

from storage.ids import new_id
from storage.model import Agent, Priority
from storage.notifications.changes import NotificationState
from storage.notifications.notifications import CLEAR_POLL_SECONDS, Notifications
from storage.postgres.pool import Pool
from tests.storage.factories import HOUR, NOW, stored_agent
from tests.storage.notifications.queues import LATER, ReportedAgents, stored_notification

CLEAR_ELSEWHERE = "UPDATE notification SET cleared = true, activated_at = NULL WHERE id = $1"
COUNT_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


async def test_clear_sleeps_between_attempts_while_row_is_locked(
    pool: Pool, queue: Notifications, scout: Agent, other_program: Any
) -> None:
    notification = await stored_notification(queue, scout)
    lock = other_program.transaction()
    await lock.start()
    await other_program.execute("UPDATE notification SET title = 'locked'")
    sleeps: list[float] = []

    async def unlock(seconds: float) -> None:
        sleeps.append(seconds)
        await lock.rollback()

    patient = Notifications(pool, lambda _: None, sleep=unlock)
    assert await patient.clear(scout.id, notification.id, LATER)

    assert sleeps == [CLEAR_POLL_SECONDS]


async def test_clear_many_without_ids_leaves_later_reminders(
    queue: Notifications, reported: ReportedAgents, scout: Agent
) -> None:
    high, low = (
        await stored_notification(queue, scout),
        await stored_notification(queue, scout, priority=Priority.LOW),
    )
    ahead = await stored_notification(queue, scout, scheduled_for=NOW + HOUR)
    reported.take()

    assert await queue.clear_many(scout.id, None, LATER) == 2
    assert reported.take() == [scout.id]
    for cleared in (high, low):
        after = await queue.get(cleared.id)
        assert after is not None
        assert (after.cleared_at, after.activated_at) == (LATER, None)
    assert await queue.get(ahead.id) == ahead
    assert await queue.clear_many(scout.id, None, LATER) == 0


async def test_clear_many_with_ids_clears_reminders_too(
    queue: Notifications, reported: ReportedAgents, pool: Pool, scout: Agent
) -> None:
    other = await stored_agent(pool)
    low = await stored_notification(queue, scout, priority=Priority.LOW)
    ahead, strange = (
        await stored_notification(queue, scout, scheduled_for=NOW + HOUR),
        await stored_notification(queue, other),
    )
    reported.take()

    assert await queue.clear_many(scout.id, [low.id], LATER) == 1
    assert reported.take() == []
    assert await queue.clear_many(scout.id, [ahead.id, strange.id, new_id()], LATER) == 1
    assert reported.take() == [scout.id]
    assert await queue.get(strange.id) == strange
    states = {state.id: state for state in await queue.list_states([low.id, strange.id, new_id()])}
    assert states == {
        low.id: NotificationState(low.id, scout.id, scout.organization_id, cleared=True),
        strange.id: NotificationState(strange.id, other.id, other.organization_id, cleared=False),
    }


async def test_clearing_of_active_tells_of_more_despite_another_clearing(
    queue: Notifications, scout: Agent, pool: Pool, other_program: Any
) -> None:
    first, second, third = [await stored_notification(queue, scout) for _ in range(3)]
    async with other_program.transaction():
        await other_program.execute(CLEAR_ELSEWHERE, first.id)
        waiting = asyncio.create_task(queue.clear_active([scout.id], 2, LATER))
        while not await pool.fetchval(COUNT_WAITING):
            pass

    cleared = await waiting
    assert cleared.is_cut
    rest = await queue.clear_active([scout.id], 2, LATER)
    assert [each.id for each in [*cleared, *rest]] == [second.id, third.id]
    assert not rest.is_cut
