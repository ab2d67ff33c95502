"""Sleep: granted only with nothing active, never beyond the cap, and safe from races with notifications."""

import asyncio
from decimal import Decimal
from random import Random

import asyncpg
import pytest

from storage.agent_facts import StateUpdate
from storage.errors import NoAnswer
from storage.ids import new_id
from storage.model import AgentStatus, Outcome, Source
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, SleepRequest, StopRequest
from supervisors.engine.registry import FINISHING_SECONDS
from supervisors.errors import RunIsOver
from supervisors.policy.phases import Phase
from supervisors.text import format_timestamp
from supervisors.tools.arguments import ToolError
from tests.storage.factories import new_notification
from tests.supervisors.world import Puppet, World, open_world

# Another program writes these, and nobody hears the doorbell.
ARRIVE = "INSERT INTO notification (agent_id, title, priority) VALUES ($1, 'Now', 'high')"
REMIND = "INSERT INTO notification (agent_id, title, priority, scheduled_for) VALUES ($1, 'Then', 'high', $2)"
CLEAR_ALL = "UPDATE notification SET cleared = true WHERE agent_id = $1"


async def test_sleep_without_a_time_lasts_until_something_wakes_the_agent(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)

    assert await run.sleeps() == {"sleep_until": None, "clamped": False}

    assert await world.phase(agent) is Phase.ASLEEP
    assert await world.outcomes(agent) == [Outcome.SLEPT]
    await world.advance(500)
    await world.notify(agent)
    assert (await world.wakes(agent))[1:] == [(500, "notification:api")]


async def test_sleep_is_clamped_to_the_cap_of_the_run(world: World) -> None:
    """Check I4."""
    agent = await world.agent(max_sleep_hours=2)
    run = await world.start(agent)
    await world.change(agent, max_sleep_hours=9)  # applies from the next start on
    await world.go_to(600)

    assert await run.sleeps(hours=8) == {"sleep_until": "2126-11-21T11:00:00.000000Z", "clamped": True}
    assert (await world.agent_now(agent.id)).sleep_until == world.at(7200)


async def test_next_run_waits_until_the_sleeping_run_has_finished(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await run.call("sleep", hours=1)
    assert await world.outcomes(agent) == [Outcome.SLEPT]
    assert run.run.slept.is_set()
    assert world.registry.is_run_alive(agent.id, run.run.id)

    await world.go_to(1)
    await world.notify(agent)
    await world.go_to(200)
    assert len(await world.wakes(agent)) == 1

    await run.fail("It broke off while it wound up.")
    assert (await world.wakes(agent))[1:] == [(200, "notification:api")]
    assert (await world.outcomes(agent))[0] is Outcome.SLEPT
    assert not world.registry.is_run_alive(agent.id, run.run.id)
    assert world.registry.statistics.ended_runs == {Outcome.SLEPT: 1}


async def test_wait_for_end_includes_the_trace_for_a_moment(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    waiting = asyncio.create_task(world.registry.wait_for_end(agent.id, run.run.id, 60))
    await run.call("sleep")
    while world.clock.monotonic() + FINISHING_SECONDS not in world.clock.timers():  # noqa: ASYNC110 -- no event to wait for
        await asyncio.sleep(0)
    await world.advance(FINISHING_SECONDS - 0.1)
    assert not waiting.done()

    await world.advance(0.1)
    await waiting
    assert not run.run.settled.is_set()

    last = asyncio.create_task(world.registry.wait_for_end(agent.id, run.run.id, 60))
    await run.end(Outcome.SLEPT)
    await last


async def test_zero_sleep_starts_at_most_once_a_second(world: World) -> None:
    agent = await world.agent(max_sleep_hours=0)
    await (await world.start(agent)).sleeps()
    for _ in range(3):
        await world.advance(1)
        await world.puppets[agent.id].sleeps()

    assert [second for second, _ in await world.wakes(agent)] == [0, 1, 2, 3]


async def test_sleep_is_refused_while_a_notification_is_active(world: World) -> None:
    """Check I4."""
    agent = await world.agent()
    run = await world.start(agent)
    first = await world.sms(agent)
    await world.go_to(1)
    second = await world.notify(agent)

    with pytest.raises(ToolError) as refused:
        await run.call("sleep")
    assert refused.value.code == "uncleared_high_priority"
    assert "clear them" in refused.value.message
    assert refused.value.details == {"notifications": [str(first.id), str(second.id)]}

    await run.clears(first, second)
    await run.sleeps()
    assert await world.outcomes(agent) == [Outcome.SLEPT]


async def test_notifications_from_before_a_stop_refuse_sleep(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(1)
    await world.ask(agent, StopRequest())
    await world.go_to(2)

    with pytest.raises(ToolError, match="uncleared"):
        await (await world.start(agent)).sleeps()


async def test_ended_run_may_not_sleep(world: World) -> None:
    """Check I1: a run that is over writes nothing."""
    agent = await world.agent()
    old = await world.start(agent)
    await old.end()
    current = await world.start(agent)

    with pytest.raises(RunIsOver):
        await world.ask(agent, SleepRequest(old.run.id, None))
    with pytest.raises(RunIsOver):
        await world.ask(agent, SleepRequest(new_id(), None))
    assert await world.phase(agent) is Phase.RUNNING
    await current.sleeps()


@pytest.mark.parametrize("asks_again", [True, False])
async def test_sleep_whose_answer_was_lost_ends_the_run(world: World, asks_again: bool) -> None:
    agent = await world.agent()
    run = await world.start(agent)

    async def store_and_lose_the_answer(update: StateUpdate) -> None:
        assert await world.storage.agent_states.update(update)
        raise NoAnswer("no answer in time")

    world.states.before_next_update = store_and_lose_the_answer
    with pytest.raises(NoAnswer):
        await run.call("sleep", hours=1)
    assert not run.run.slept.is_set()
    if asks_again:
        answer = await run.sleeps(hours=1)
        assert answer == {"sleep_until": format_timestamp(world.at(3600)), "clamped": False}
    else:
        await world.go_to(5)
        assert run.run.slept.is_set()
        await run.end()
    assert await world.outcomes(agent) == [Outcome.SLEPT]
    assert await world.phase(agent) is Phase.ASLEEP


async def test_stopping_run_may_not_sleep(pool: Pool) -> None:
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        agent = await world.agent()
        world.puppets_are_stubborn = True
        run = await world.start(agent)
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))

        with pytest.raises(ToolError) as refused:
            await run.call("sleep")

        assert refused.value.code == "not_running"
        await run.end()


async def test_schedule_written_while_asleep_replaces_the_old_one(world: World) -> None:
    agent = await world.agent(max_sleep_hours=1)
    await (await world.start(agent)).sleeps(until=world.at(600).isoformat())

    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(900)))
    assert (await world.agent_now(agent.id)).sleep_until == world.at(900)
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(90_000)))
    assert (await world.agent_now(agent.id)).sleep_until == world.at(3600)
    await world.go_to(10)
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(5)))
    assert (await world.wakes(agent))[1:] == [(10, "sleep_elapsed")]


async def test_cleared_traffic_does_not_starve_sleep(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)

    async def insert_and_clear(_: StateUpdate) -> None:
        world.states.before_next_update = insert_and_clear
        new = new_notification(agent.id, created_at=world.clock.now())
        await world.storage.notifications.insert(new, {agent.organization_id})
        await world.storage.notifications.clear(agent.id, new.id, world.clock.now())

    world.states.before_next_update = insert_and_clear
    await run.sleeps()

    assert world.states.locks == 1  # the guard failed each time; under lock nothing can interfere
    assert await world.phase(agent) is Phase.ASLEEP


async def test_notification_that_nobody_told_refuses_sleep(world: World, database_url: str) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    other_program = await asyncpg.connect(database_url)
    await other_program.execute(ARRIVE, agent.id)

    with pytest.raises(ToolError, match="uncleared"):
        await run.call("sleep")

    await other_program.execute(CLEAR_ALL, agent.id)
    await other_program.close()
    await run.sleeps()
    assert await world.outcomes(agent) == [Outcome.SLEPT]


async def test_notification_told_while_sleep_is_stored_is_not_lost(world: World) -> None:
    """The update is committed before the notification, and answered after the message about it."""
    agent = await world.agent()
    run = await world.start(agent)

    async def arrive() -> None:
        new = new_notification(agent.id, created_at=world.clock.now(), source=Source.API)
        await world.storage.notifications.insert(new, {agent.organization_id})

    world.states.after_next_update = arrive
    await run.sleeps()

    assert [reason for _, reason in await world.wakes(agent)] == ["run_requested", "notification:api"]


async def test_agent_changed_after_sleep_is_read_again(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await run.call("sleep", hours=1)
    await world.change(agent, max_cost_usd_per_day=Decimal(0))

    await run.end(Outcome.SLEPT)

    assert (await world.state(agent)).phase == "over_budget"
    await world.go_to(3600)
    assert len(await world.wakes(agent)) == 1


async def test_reminder_seen_under_the_lock_is_in_time(world: World, database_url: str) -> None:
    """Another program writes a reminder before the update, so that sleep is granted under the lock."""
    agent = await world.agent()
    run = await world.start(agent)
    other_program = await asyncpg.connect(database_url)

    async def remind(_: StateUpdate) -> None:
        await other_program.execute(REMIND, agent.id, world.at(10))

    world.states.before_next_update = remind
    await run.sleeps()
    await other_program.close()

    assert world.states.locks == 1
    await world.go_to(10)
    assert (await world.wakes(agent))[1:] == [(10, "reminder")]


@pytest.mark.parametrize("seed", range(3))
async def test_notification_that_races_with_sleep_is_not_lost(world: World, seed: int) -> None:
    """Check I2, in the sleep race."""
    random = Random(seed)  # noqa: S311 -- repeatable races, as far as the database allows
    agents = [await world.agent() for _ in range(25)]
    runs = [await world.start(agent) for agent in agents]

    async def try_to_sleep(run: Puppet) -> bool:
        await yield_to_loop(random.randrange(30))
        try:
            await run.call("sleep")
        except ToolError:
            return False
        return True

    async def insert_notification(run: Puppet) -> None:
        await yield_to_loop(random.randrange(30))
        new = new_notification(run.run.agent_id, created_at=world.clock.now(), source=Source.API)
        await world.storage.notifications.insert(new, {agents[0].organization_id})

    world.clock.advance(1)
    sleepers, _ = await asyncio.gather(
        asyncio.gather(*map(try_to_sleep, runs)), asyncio.gather(*map(insert_notification, runs))
    )
    for run, sleeps in zip(runs, sleepers, strict=True):
        if sleeps:
            await run.end(Outcome.SLEPT)

    for agent, sleeps in zip(agents, sleepers, strict=True):
        assert await world.phase(agent) is Phase.RUNNING
        expected = ["run_requested", "notification:api"] if sleeps else ["run_requested"]
        assert [reason for _, reason in await world.wakes(agent)] == expected


async def yield_to_loop(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
