"""The notification tools, called by a run on a real queue."""

from datetime import UTC, datetime

import pytest

from storage.ids import new_id
from storage.model import Priority
from storage.notifications.queues import MAX_BYTES
from supervisors.tools.arguments import ToolError
from tests.supervisors.world import World


async def test_listed_notification_has_all_fields(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    message = await world.sms(agent, source_id="c0ffee", title="New sms from Ada", body="Hello")

    assert await run.call("list_notifications") == [
        {
            "id": str(message.id),
            "agent": str(agent.id),
            "source": "sms",
            "source_id": "c0ffee",
            "title": "New sms from Ada",
            "body": "Hello",
            "priority": "high",
            "created_at": "2126-11-21T09:00:00.000000Z",
            "scheduled_for": None,
            "cleared": False,
            "cleared_at": None,
        }
    ]


async def test_listed_year_has_four_digits(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await world.notify(agent, scheduled_for=datetime(33, 4, 3, 15, tzinfo=UTC))

    [listed] = await run.call("list_notifications")
    assert listed["scheduled_for"] == "0033-04-03T15:00:00.000000Z"


async def test_list_has_at_most_a_hundred_notifications(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    for _ in range(101):
        await world.notify(agent, priority=Priority.LOW)

    assert len(await run.call("list_notifications")) == 50
    assert len(await run.call("list_notifications", limit=5000)) == 100


async def test_long_list_is_partial_and_says_so(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    stored = [await world.notify(agent, body="x" * (MAX_BYTES // 3)) for _ in range(3)]

    result = await run.call("list_notifications")

    assert [listed["id"] for listed in result.value] == [str(one.id) for one in stored[:2]]
    assert result.left_out.startswith("There are more")


async def test_cleared_notifications_are_listed_on_request(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    message = await world.notify(agent)
    await world.go_to(5)
    await run.clears(message)

    assert await run.lists() == []
    [listed] = await run.call("list_notifications", include_cleared=True)
    assert (listed["cleared"], listed["cleared_at"]) == (True, "2126-11-21T09:00:05.000000Z")


async def test_agent_clears_only_its_own_notifications(world: World) -> None:
    run = await world.start(await world.agent())
    foreign = await world.notify(await world.agent())

    for notification_id in (foreign.id, new_id()):
        with pytest.raises(ToolError) as refused:
            await run.call("clear_notification", notification_id=str(notification_id))
        assert refused.value.as_json() == {
            "code": "not_found",
            "message": f"You have no notification {notification_id}.",
        }
    stored = await world.storage.notifications.get(foreign.id)
    assert stored is not None
    assert not stored.cleared


async def test_created_notification_is_low_and_from_the_agent(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)

    created = await run.call("create_notification", title=" Buy milk ")

    assert (created["title"], created["body"], created["priority"], created["source"]) == (
        "Buy milk",
        "",
        "low",
        "agent",
    )
    assert await run.lists() == [created["id"]]
    await run.sleeps()


async def test_agent_reminds_itself_in_its_own_timezone(world: World) -> None:
    agent = await world.agent(timezone="Europe/Berlin")
    run = await world.start(agent)

    created = await run.call(
        "create_notification", title="Call Ada", priority="high", scheduled_for="2126-11-21T10:10:00"
    )
    assert created["scheduled_for"] == "2126-11-21T09:10:00.000000Z"
    assert await run.lists() == []
    await run.sleeps()
    await world.go_to(700)

    assert (await world.wakes(agent))[1:] == [(600, "reminder")]
    assert await world.puppets[agent.id].lists() == [created["id"]]


async def test_low_reminder_is_answered_with_a_hint(world: World) -> None:
    run = await world.start(await world.agent())
    later, past = "2126-11-21T10:10:00Z", "2026-11-21T10:10:00Z"

    created = await run.call("create_notification", title="Call Ada", scheduled_for=later)
    assert created["hint"] == "It will not wake you: its priority is low."

    for fields in ({"priority": "high", "scheduled_for": later}, {"scheduled_for": past}, {}):
        assert "hint" not in await run.call("create_notification", title="Call Ada", **fields)
