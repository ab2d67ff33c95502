"""Holds: one run for a conversation, at the end of its window."""

import asyncio
from datetime import timedelta

from storage.model import Source
from tests.storage.factories import new_notification
from tests.supervisors.engine.situations import quarantined
from tests.supervisors.world import World


async def test_thousand_messages_during_a_hold_are_one_run(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(30)
    await asyncio.gather(
        *(
            world.storage.notifications.insert(
                new_notification(agent.id, source=Source.SMS, created_at=world.clock.now()),
                {agent.organization_id},
            )
            for _ in range(1000)
        )
    )
    await world.wait_until_idle()
    await world.go_to(1000)

    [run] = await world.ledger(agent)
    assert (run.started_at, run.notification_count) == (world.at(90), 1001)


async def test_constant_conversation_wakes_at_the_cap(world: World) -> None:
    """Check I5."""
    agent = await world.agent(debounce_window_seconds=60)
    for second in range(0, 400, 50):
        await world.go_to(second)
        await world.sms(agent)

    assert await world.wakes(agent) == [(300, "notification:sms")]


async def test_each_message_resets_the_window_and_writes_nothing(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    before = await world.state(agent)
    await world.go_to(50)
    await world.sms(agent)

    debounce = (await world.see(agent)).debounce
    assert debounce is not None
    assert (debounce.first_at, debounce.last_at, debounce.due_at) == (
        world.at(0),
        world.at(50),
        world.at(110),
    )
    assert (await world.state(agent)).next_due_at == before.next_due_at == world.at(60)


async def test_slow_database_does_not_stretch_a_hold(world: World) -> None:
    """Check I5."""
    agent = await world.agent(debounce_window_seconds=60)
    world.states.during_next_read = lambda: world.clock.advance(5)
    await world.sms(agent)
    await world.go_to(90)

    assert await world.wakes(agent) == [(60, "notification:sms")]


async def test_reminder_during_a_long_hold_is_in_time(world: World) -> None:
    """Check I6."""
    agent = await world.agent(debounce_window_seconds=3600)
    await world.remind(agent, 301)
    await world.sms(agent)
    await world.go_to(400)

    assert await world.wakes(agent) == [(301, "reminder")]


async def test_quarantined_agent_rests_after_the_end_of_a_hold(world: World) -> None:
    """Its next start is later than that, and nothing happens before."""
    agent = await quarantined(world)
    last_started_at = (await world.state(agent)).last_started_at
    assert last_started_at is not None
    await world.change(agent, debounce_window_seconds=2)
    await world.sms(agent)
    async with asyncio.timeout(10):
        await world.advance(30)
        await world.advance(31)

    assert agent.id in world.puppets
    assert (await world.state(agent)).last_started_at == last_started_at + timedelta(seconds=60)
