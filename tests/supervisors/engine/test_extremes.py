"""Extreme input: clock steps, huge numbers, and contradictory settings."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import pytest

from storage.model import AgentStatus, Outcome, Source
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest
from supervisors.errors import SupervisorError
from supervisors.policy.phases import Phase
from supervisors.tools.arguments import ToolError
from tests.storage.factories import NOW, new_notification
from tests.supervisors.world import World, open_world

HOUR = 3600
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC)
LONGEST_WINDOW = 2**31 - 1


async def test_clock_set_forward_fires_what_became_due(world: World) -> None:
    reminded, sleeper = await world.agent(), await world.agent(sleep_until=world.at(2000))
    await world.remind(reminded, 1000)
    later = await world.agent(sleep_until=world.at(2 * HOUR))
    world.clock.step(HOUR)
    await world.scan.run_once()
    await world.wait_until_idle()

    for agent, reason in ((reminded, "reminder"), (sleeper, "sleep_elapsed")):
        assert await world.wakes(agent) == [(HOUR, reason)]
    assert await world.wakes(later) == []
    await world.go_to(2 * HOUR)
    assert await world.wakes(later) == [(2 * HOUR, "sleep_elapsed")]


async def test_clock_set_back_makes_no_reminder_early(world: World) -> None:
    """Check I5 and I6."""
    reminded, sleeper, held = (
        await world.agent(),
        await world.agent(sleep_until=world.at(110)),
        await world.agent(debounce_window_seconds=60),
    )
    await world.remind(reminded, 100)
    await world.sms(held)
    await world.go_to(30)
    world.clock.step(-HOUR)

    await world.advance(30 + 59.9)
    assert world.puppets == {}
    await world.advance(0.1)
    assert set(world.puppets) == {held.id}
    await world.go_to(200)
    assert await world.wakes(reminded) == [(100, "reminder")]
    assert await world.wakes(sleeper) == [(110, "sleep_elapsed")]


async def test_notification_before_clock_step_wakes_once_then_backs_off(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await world.go_to(10)
    await world.notify(agent)
    world.clock.step(-HOUR)
    await run.end()
    for _ in range(3):
        await world.puppets[agent.id].end()
        await world.advance(20)

    starts = [second for second, _ in await world.wakes(agent) if second < 0]
    assert len(starts) == 4
    assert all(later - earlier >= 1 for earlier, later in pairwise(starts)), starts


async def test_due_agent_that_may_not_start_causes_no_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, microseconds = await world.agent(), count()
    run = await world.start(agent)
    await world.go_to(10)
    await world.notify(agent)
    world.clock.step(-HOUR)
    held_now = world.clock.now
    monkeypatch.setattr(world.clock, "now", lambda: held_now() + timedelta(microseconds=next(microseconds)))
    world.registry.allow_starts(False)

    await run.end()  # waits until the world is quiet

    assert await world.phase(agent) is Phase.ASLEEP
    world.registry.allow_starts(True)
    await world.scan.run_once()
    await world.wait_until_idle()
    assert set(world.puppets) == {agent.id}


async def test_message_before_clock_step_is_held_for_its_window(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    run = await world.start(agent)
    await world.go_to(10)
    await world.sms(agent)
    world.clock.step(-HOUR)
    await run.end()

    await world.advance(59.9)
    assert world.puppets == {}
    await world.advance(0.1)
    assert set(world.puppets) == {agent.id}


async def test_api_notifications_around_clock_step_wake_at_once(world: World) -> None:
    during, after = await world.agent(), await world.agent()
    runs = [await world.start(agent) for agent in (during, after)]
    await world.go_to(10)
    await world.notify(during)
    world.clock.step(-HOUR)
    await runs[0].end()
    assert set(await world.wakes(during)) == {(0, "run_requested"), (10 - HOUR, "notification:api")}

    await runs[1].sleeps()
    await world.notify(after)
    assert len(await world.wakes(after)) == 2


async def test_reminder_at_the_last_possible_time_waits(world: World) -> None:
    agent = await world.agent()
    await world.notify(agent, scheduled_for=END_OF_TIME)
    await world.restart()
    await world.go_to(86_400)

    seen = await world.see(agent)
    assert seen.next_wake is not None
    assert (seen.phase, seen.next_wake.at, await world.wakes(agent)) == (Phase.ASLEEP, END_OF_TIME, [])
    await world.ask(agent, OwnedFieldsRequest(sleep_until=END_OF_TIME))
    assert await world.phase(agent) is Phase.ASLEEP
    run = await world.start(agent)
    with pytest.raises(ToolError, match="until takes"):
        await run.call("sleep", until=END_OF_TIME.isoformat())
    await run.sleeps(hours=87_600)
    next_wake = (await world.see(agent)).next_wake
    assert next_wake is not None
    assert next_wake.at.year == NOW.year + 10


async def test_longest_window_holds_until_it_is_shortened(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=LONGEST_WINDOW)
    await world.sms(agent)
    await world.go_to(86_400)
    await world.sms(agent)
    await world.restart()

    seen = await world.see(agent)
    assert seen.phase is Phase.HOLDING
    assert seen.debounce is not None
    assert seen.debounce.due_at == world.at(86_400 + LONGEST_WINDOW)
    await world.change(agent, debounce_window_seconds=0)
    assert await world.wakes(agent) == [(86_400, "notification:sms")]


async def test_zero_sleep_cap_starts_once_a_second_then_backs_off(world: World) -> None:
    agent = await world.agent(max_sleep_hours=0)
    assert (await (await world.start(agent)).sleeps(hours=8))["clamped"]
    await world.go_to(1)
    await world.puppets[agent.id].end()
    await world.go_to(2)
    await world.puppets[agent.id].fail()
    await world.go_to(3)
    await world.puppets[agent.id].fail()
    await world.go_to(5)

    assert [second for second, _ in await world.wakes(agent)] == [0, 1, 2, 3, 5]


async def test_run_of_a_deleted_agent_can_do_nothing(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent()
    message = await world.notify(agent)
    run = world.puppets[agent.id]
    await world.delete(agent)

    for tool, arguments in (("sleep", {}), ("clear_notification", {"notification_id": str(message.id)})):
        with pytest.raises((ToolError, SupervisorError, AssertionError)):
            await run.call(tool, **arguments)
    await run.end(Outcome.SLEPT)
    await world.scan.run_once()
    await world.restart()

    assert await world.pool.fetchval("SELECT count(*) FROM agent_state") == 0
    assert world.registry.status.numbers().supervisors.active == 0


async def test_archive_ends_a_hold_and_restore_wakes_at_once(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(30)
    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.ARCHIVED))
    seen = await world.see(agent)
    assert (seen.phase, seen.debounce, seen.next_wake) == (Phase.ARCHIVED, None, None)
    await world.go_to(600)
    assert await world.wakes(agent) == []

    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))

    assert await world.wakes(agent) == [(600, "notification:sms")]


async def test_template_deleted_during_hold_leaves_its_window(world: World) -> None:
    shared = await world.template(debounce_window_seconds=60)
    agent = await world.agent(template_id=shared.id)
    await world.sms(agent)
    await world.go_to(20)
    await world.storage.templates.delete_detaching(shared.id, world.clock.now())
    await world.go_to(300)

    assert await world.wakes(agent) == [(60, "notification:sms")]


async def test_ten_thousand_messages_are_one_run(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent(debounce_window_seconds=60)
        messages = (
            new_notification(agent.id, source=Source.SMS, created_at=world.clock.now()) for _ in range(10_000)
        )
        insert = world.storage.notifications.insert
        await asyncio.gather(*(insert(message, {agent.organization_id}) for message in messages))
        await world.wait_until_idle()
        assert len((await world.see(agent)).recent) <= 32
        await world.go_to(60.1)  # the last message counts as 10 ms later than the first

        [entry] = await world.ledger(agent)
        run = world.puppets[agent.id]
        assert entry.notification_count == 10_000
        assert len(await run.call("list_notifications", limit=100)) == 100
        with pytest.raises(ToolError) as refused:
            await run.call("sleep")
        assert len(refused.value.details["notifications"]) == 100
        await world.storage.notifications.clear_many(agent.id, None, world.clock.now())
        await run.sleeps()
        assert (await world.ask(agent, RunRequest(wakeup=False))).status == "started"
