"""Holds: one run for a conversation, at the end of its window."""

import asyncio
from datetime import timedelta

import pytest

from storage.model import Source
from supervisors.engine.messages import StopRequest
from tests.storage.factories import new_notification
from tests.supervisors.engine.situations import quarantined
from tests.supervisors.world import World

HOUR = 3600
WINDOW = 60
CAP = 300  # the configured maximum length of a hold of this window
STEPS = [-HOUR, -20, -0.5, 0.5, 20, HOUR]


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
    assert timedelta() <= run.started_at - world.at(90) <= timedelta(milliseconds=2)
    assert run.notification_count == 1001


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
    await world.advance(30)
    await world.advance(31)

    assert agent.id in world.puppets
    assert (await world.state(agent)).last_started_at == last_started_at + timedelta(seconds=60)


@pytest.mark.parametrize("step", STEPS)
async def test_clock_step_adds_at_most_one_window_to_a_hold(world: World, step: float) -> None:
    """Check I5 and scenario 24."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(step)
    await world.advance(5)
    await world.sms(agent)
    await world.advance(2 * WINDOW)

    assert [reason for _, reason in await world.wakes(agent)] == ["notification:sms"]


@pytest.mark.parametrize("step", STEPS)
async def test_constant_conversation_wakes_despite_clock_step(world: World, step: float) -> None:
    """Check I5."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    for second in range(0, CAP + WINDOW, 20):
        await world.sms(agent)
        if second == 100:
            world.clock.step(step)
        await world.advance(20)

    assert agent.id in world.puppets


async def test_stop_after_clock_step_ends_the_hold(world: World) -> None:
    """Check scenario 3."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    world.clock.step(-HOUR)
    await world.advance(1)
    await world.sms(agent)
    assert await world.ask(agent, StopRequest()) == "stopped"
    await world.advance(2 * HOUR)
    assert await world.wakes(agent) == []


async def test_restart_after_clock_set_back_holds_one_window(world: World) -> None:
    """Check scenarios 19 and 24."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(-HOUR)
    await world.restart()
    await world.advance(WINDOW - 0.1)
    assert agent.id not in world.puppets
    await world.advance(0.1)
    assert agent.id in world.puppets


@pytest.mark.parametrize("step", [-HOUR, -1.5, -0.5])
@pytest.mark.parametrize("is_planned", [False, True])
async def test_clock_set_back_just_after_a_text_leaves_a_timer(
    world: World, step: float, is_planned: bool
) -> None:
    """Check I5: also if the clock is set while the hold is being planned."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    if not is_planned:
        world.states.during_next_read = lambda: world.clock.step(step)
    await world.sms(agent)
    if is_planned:
        world.clock.step(step)
    await world.scan.run_once()
    await world.wait_until_idle()

    assert agent.id in world.registry._context.timer_queue
    await world.advance(WINDOW)
    await world.advance(WINDOW)
    assert [reason for _, reason in await world.wakes(agent)] == ["notification:sms"]
