"""Starts that wait for their turn for a moment: nothing of the wait is stored, and nothing is lost."""

import pytest

from storage.postgres.pool import Pool
from supervisors.engine.messages import RunAnswer, RunRequest, StopReply, StopRequest
from supervisors.engine.run_slots import STARTING_SECONDS
from supervisors.policy.admission import SHORT_WAIT_SECONDS
from supervisors.policy.phases import Phase
from tests.storage.factories import new_notification
from tests.supervisors.world import World, open_world

MANY = 10.0  # starts a second: each waiting agent has its turn soon
ONE_SLOT = {"max_concurrent": 1}


def hurry(world: World) -> None:
    """Let the rate of starts promise a short wait for the only slot."""
    world.registry.slots.set_pace(1, MANY)


async def test_brief_wait_is_told_but_not_stored(pool: Pool) -> None:
    async with open_world(pool, runs=ONE_SLOT) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        hurry(world)
        await world.go_to(5)
        before = await world.state(agent)
        await world.notify(agent)

        seen, state = await world.see(agent), await world.state(agent)
        assert (seen.phase, seen.since, seen.next_wake) == (Phase.QUEUED, world.at(5), None)
        assert seen.why.endswith("; all 1 were taken, about 1 s.")
        assert (state.queued_at, state.phase, state.version) == (None, before.phase, before.version)
        assert world.registry.status.overview().runs.queued == 1

        await run.end()
        assert await world.wakes(agent) == [(5, "notification:api")]


async def test_wait_that_gets_long_is_stored(pool: Pool) -> None:
    async with open_world(pool, runs=ONE_SLOT) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        hurry(world)
        await world.notify(agent)
        await world.go_to(SHORT_WAIT_SECONDS - 1)
        assert (await world.state(agent)).queued_at is None

        await world.go_to(SHORT_WAIT_SECONDS)
        await world.scan.run_once()
        await world.wait_until_idle()

        assert (await world.state(agent)).queued_at == world.at(SHORT_WAIT_SECONDS)
        await run.end()
        assert await world.wakes(agent) == [(SHORT_WAIT_SECONDS, "notification:api")]


async def test_unknown_wait_is_stored_at_once(pool: Pool) -> None:
    async with open_world(pool, runs=ONE_SLOT) as world:
        await world.start(await world.agent())
        agent = await world.agent()
        world.registry.slots.set_pace(1, 0.0)
        await world.notify(agent)

        assert (await world.state(agent)).queued_at is not None


async def test_brief_wait_survives_a_crash(pool: Pool) -> None:
    """Check I2: the agent stays due, so the recovery finds it."""
    async with open_world(pool, runs=ONE_SLOT) as world:
        await world.start(await world.agent())
        agent = await world.agent()
        hurry(world)
        await world.notify(agent)
        await world.restart()
        await world.advance(2)
        for run in list(world.puppets.values()):
            await run.end()
        await world.advance(1)

        assert [reason for _, reason in await world.wakes(agent)] == ["notification:api"]


async def test_reminder_waits_briefly_and_survives_a_crash(pool: Pool) -> None:
    """Check I6."""
    async with open_world(pool, runs=ONE_SLOT) as world:
        await world.start(await world.agent())
        agent = await world.agent()
        hurry(world)
        await world.remind(agent, 3)
        await world.go_to(4)
        state = await world.state(agent)
        assert (await world.phase(agent), state.queued_at, state.next_due_at) == (
            Phase.QUEUED,
            None,
            world.at(3),
        )
        await world.restart()
        await world.advance(2)
        for run in list(world.puppets.values()):
            await run.end()
        await world.advance(1)

        assert [reason for _, reason in await world.wakes(agent)] == ["reminder"]


async def test_more_notifications_read_nothing_while_it_waits(pool: Pool) -> None:
    async with open_world(pool, runs=ONE_SLOT) as world:
        await world.start(await world.agent())
        agent = await world.agent()
        hurry(world)
        await world.notify(agent)
        world.states.read_errors = [AssertionError("the agent was read again")]
        await world.notify(agent)
        await world.scan.run_once()
        await world.wait_until_idle()

        assert world.states.read_errors
        world.states.read_errors.clear()


async def test_agent_that_is_no_longer_due_leaves_the_brief_wait(pool: Pool) -> None:
    async with open_world(pool, runs=ONE_SLOT) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        hurry(world)
        await world.clear(await world.notify(agent))
        assert await world.phase(agent) is Phase.ASLEEP

        await run.end()

        assert await world.wakes(agent) == []
        assert world.registry.status.overview().runs.queued == 0


async def test_notification_during_a_read_of_waiting_agent_is_not_lost(pool: Pool) -> None:
    """Check I2: the read that a clearing caused began before the notification, and found nothing due."""
    async with open_world(pool, runs=ONE_SLOT) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        hurry(world)
        first = await world.notify(agent)

        async def receive() -> None:
            new = new_notification(agent.id, created_at=world.clock.now())
            await world.storage.notifications.insert(new, {agent.organization_id})

        world.states.after_next_read = receive
        await world.clear(first)
        await run.end()

        assert await world.wakes(agent) == [(0, "notification:api")]


async def test_pause_set_by_another_leader_ends_a_brief_wait(pool: Pool) -> None:
    async with open_world(pool, runs=ONE_SLOT) as world:
        run, agent = await world.start(await world.agent()), await world.agent(await world.organization())
        hurry(world)
        await world.notify(agent)
        world.registry.allow_starts(False)
        await pool.execute("UPDATE organization SET paused = true WHERE id = $1", agent.organization_id)
        world.registry.allow_starts(True)
        await world.scan.recover()
        await world.wait_until_idle()

        await run.end()

        assert await world.wakes(agent) == []


async def test_run_request_during_a_brief_wait_is_stored(pool: Pool) -> None:
    async with open_world(pool, runs=ONE_SLOT) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        hurry(world)
        await world.notify(agent)
        reply = await world.ask(agent, RunRequest())
        assert reply.status is RunAnswer.QUEUED
        assert (await world.state(agent)).queued_at is not None

        await run.end()

        assert len(await world.wakes(agent)) == 1


async def test_stop_ends_a_brief_wait(pool: Pool) -> None:
    async with open_world(pool, runs=ONE_SLOT) as world:
        run, agent = await world.start(await world.agent()), await world.agent()
        hurry(world)
        await world.notify(agent)
        assert await world.ask(agent, StopRequest()) is StopReply.STOPPED

        await run.end()

        assert await world.wakes(agent) == []


@pytest.mark.parametrize("rate", [0.0, MANY])
async def test_throttled_start_waits_and_says_so(pool: Pool, rate: float) -> None:
    async with open_world(pool, runs={"max_concurrent": 3}) as world:
        world.registry.slots.set_pace(1, rate)
        await world.start(await world.agent())
        agent = await world.agent()
        await world.notify(agent)
        told = "; the service is busy." if not rate else "; the service is busy, about 1 s."
        assert (await world.see(agent)).why.endswith(told)

        await world.advance(STARTING_SECONDS)
        assert await world.wakes(agent) == [], "the slot is offered when the limit is applied again"
        world.registry.slots.set_pace(1, rate)
        await world.wait_until_idle()

        assert len(await world.wakes(agent)) == 1
        assert len(world.puppets) == 2, "a lower limit ends no run"
