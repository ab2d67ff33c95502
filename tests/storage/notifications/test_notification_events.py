"""The events of notifications: each change is in the log once, with who made it."""

import asyncio

from storage.ids import new_id
from storage.model import Agent, Priority, Source
from storage.notifications.notifications import Notifications
from storage.postgres.pool import Pool
from tests.storage.events.recorded import forget_events, list_events, logged
from tests.storage.factories import HOUR, NOW, new_notification, stored_agent
from tests.storage.notifications.queues import LATER, stored_notification

KEY = f"key:{new_id()}"


async def test_insert_writes_created_event_with_source_and_priority(
    pool: Pool, queue: Notifications, scout: Agent
) -> None:
    new = new_notification(scout.id, source=Source.SMS, priority=Priority.HIGH)
    await queue.insert(new, {scout.organization_id}, actor=KEY)

    [event] = await list_events(pool, "notification")
    assert event["type"] == "notification.created"
    assert event["at"] == new.created_at
    assert (event["organization_id"], event["agent_id"]) == (scout.organization_id, scout.id)
    assert (event["resource_id"], event["run_id"], event["actor"]) == (new.id, None, KEY)
    assert event["phase"] is None
    assert await logged(pool, "notification") == [
        ("notification.created", KEY, {"source": "sms", "priority": "high"})
    ]


async def test_created_reminder_event_has_its_moment(pool: Pool, queue: Notifications, scout: Agent) -> None:
    await queue.insert(
        new_notification(scout.id, priority=Priority.LOW, scheduled_for=LATER), {scout.organization_id}
    )

    [(_, actor, data)] = await logged(pool, "notification")
    assert actor == ""
    assert data == {"source": "api", "priority": "low", "scheduled_for": f"{LATER:%Y-%m-%dT%H:%M:%S.%fZ}"}


async def test_batch_writes_one_event_each_in_order(pool: Pool, queue: Notifications, scout: Agent) -> None:
    others = [await stored_agent(pool) for _ in range(3)]
    new = [new_notification(agent.id) for agent in (*others, scout) for _ in range(20)]
    allowed = {agent.organization_id for agent in (*others, scout)}
    await asyncio.gather(*(queue.insert(one, allowed) for one in new))

    assert [event["resource_id"] for event in await list_events(pool, "notification")] == [
        one.id for one in new
    ]


async def test_clear_writes_cleared_event_only_once(pool: Pool, queue: Notifications, scout: Agent) -> None:
    one = await stored_notification(queue, scout)
    await forget_events(pool)
    await asyncio.gather(*(queue.clear(scout.id, one.id, LATER, actor=KEY) for _ in range(3)))
    await queue.clear(scout.id, one.id, LATER + HOUR)

    [event] = await list_events(pool, "notification")
    assert (event["type"], event["at"], event["actor"]) == ("notification.cleared", LATER, KEY)
    assert (event["resource_id"], event["agent_id"]) == (one.id, scout.id)
    assert event["organization_id"] == scout.organization_id


async def test_clear_many_writes_event_for_each_uncleared(
    pool: Pool, queue: Notifications, scout: Agent
) -> None:
    ids = sorted([(await stored_notification(queue, scout)).id for _ in range(4)])
    await queue.clear(scout.id, ids[0], LATER)
    await forget_events(pool)

    assert await queue.clear_many(scout.id, ids[:2], LATER, actor=KEY) == 1
    assert await queue.clear_many(scout.id, None, LATER, actor=KEY) == 2
    assert await queue.clear_many(scout.id, None, LATER, actor=KEY) == 0

    assert [event["resource_id"] for event in await list_events(pool, "notification")] == ids[1:]
    assert await logged(pool, "notification") == [("notification.cleared", KEY, {})] * 3


async def test_update_writes_changed_event_naming_changed_fields(
    pool: Pool, queue: Notifications, scout: Agent
) -> None:
    one = await stored_notification(queue, scout)
    await forget_events(pool)
    changes = {"title": one.title, "body": "More", "priority": Priority.LOW, "scheduled_for": LATER}
    await queue.update(one.id, changes, NOW, actor=KEY)
    await queue.update(one.id, changes, NOW, actor=KEY)  # nothing changes
    await queue.update(one.id, {"scheduled_for": None}, NOW, actor=KEY)

    moment = f"{LATER:%Y-%m-%dT%H:%M:%S.%fZ}"
    first = {"fields": ["body", "priority", "scheduled_for"], "priority": "low", "scheduled_for": moment}
    second = {"fields": ["scheduled_for"], "scheduled_for": None}
    assert await logged(pool, "notification") == [
        ("notification.changed", KEY, first),
        ("notification.changed", KEY, second),
    ]


async def test_update_that_clears_writes_cleared_event(
    pool: Pool, queue: Notifications, scout: Agent
) -> None:
    one = await stored_notification(queue, scout)
    await forget_events(pool)
    await queue.update(one.id, {"title": "Done", "cleared": True}, LATER, actor=KEY)
    await queue.update(one.id, {"cleared": True}, LATER, actor=KEY)
    await queue.update(one.id, {"cleared": False}, LATER, actor=KEY)

    assert await logged(pool, "notification") == [
        ("notification.changed", KEY, {"fields": ["title"]}),
        ("notification.cleared", KEY, {}),
        ("notification.changed", KEY, {"fields": ["cleared"]}),
    ]
    [event, *_] = await list_events(pool, "notification")
    assert (event["at"], event["resource_id"], event["agent_id"]) == (LATER, one.id, scout.id)
    assert event["organization_id"] == scout.organization_id
