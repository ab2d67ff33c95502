"""Recovery after a start of the service: overdue and interrupted agents start a few at a time."""

from collections import Counter

from storage.errors import DatabaseUnavailable
from storage.model import Agent, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunRequest
from supervisors.maintenance.scans import IMMEDIATE_STARTS, STARTS_PER_SECOND
from tests.storage.factories import new_span
from tests.supervisors.world import World, open_world

MANY = 60


async def starts(world: World, agents: list[Agent]) -> Counter[float]:
    """Return the number of agents that started at each second of the timeline."""
    return Counter([second for agent in agents for second, _ in await world.wakes(agent)])


async def test_overdue_agents_start_a_few_at_a_time(pool: Pool) -> None:
    async with open_world(pool) as world:
        agents = [await world.agent(sleep_until=world.at(10)) for _ in range(MANY // 2)]
        for _ in range(MANY // 2):
            agents.append(agent := await world.agent(debounce_window_seconds=5))
            await world.sms(agent)
        await world.die()
        world.clock.advance(100)
        await world.begin()
        await world.scan.run_once()  # ignores agents that wait for their turn
        await world.wait_until_idle()
        assert await starts(world, agents) == {100: IMMEDIATE_STARTS}

        await world.advance((MANY + IMMEDIATE_STARTS) / STARTS_PER_SECOND)
        spread = await starts(world, agents)

        assert spread.total() == MANY
        assert len(spread) > (MANY - IMMEDIATE_STARTS) / 2
        assert max(spread) > 100 + (MANY - IMMEDIATE_STARTS) / 2 / STARTS_PER_SECOND


async def test_message_wakes_an_overdue_agent_before_its_turn(pool: Pool) -> None:
    async with open_world(pool) as world:
        agents = [await world.agent(sleep_until=world.at(10)) for _ in range(IMMEDIATE_STARTS + 10)]
        await world.die()
        world.clock.advance(100)
        await world.begin()
        [*_, last] = (agent for agent in agents if agent.id not in world.puppets)

        await world.notify(last)

        assert await world.wakes(last) == [(100, "notification:api")]


async def test_scan_starts_agents_that_missed_their_turn(pool: Pool) -> None:
    async with open_world(pool) as world:
        agents = [await world.agent(sleep_until=world.at(10)) for _ in range(IMMEDIATE_STARTS + 5)]
        await world.die()
        world.clock.advance(100)
        await world.begin()
        world.registry._context.timer_queue.close()  # so that no timer fires
        await world.advance(1)
        assert (await starts(world, agents)).total() == IMMEDIATE_STARTS

        await world.scan.run_once()
        await world.wait_until_idle()

        assert await starts(world, agents) == {100: IMMEDIATE_STARTS, 101: 5}


async def test_agents_with_interrupted_runs_restart_with_jitter(pool: Pool) -> None:
    async with open_world(pool) as world:
        agents = [await world.agent() for _ in range(30)]
        for agent in agents:
            await world.ask(agent, RunRequest())
        await world.restart()
        world.puppets.clear()
        assert await starts(world, agents) == {0: 30}
        await world.go_to(2)

        returned = (await starts(world, agents)) - Counter({0.0: 30})
        assert returned.total() == 30
        assert len(returned) > 15
        assert min(returned) >= 1


async def test_open_spans_are_ended_although_the_answer_is_lost(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await world.storage.traces.insert_spans([new_span(run.run.id, started_at=world.at(0), ended_at=None)])
    world.states.lost_update_answer = DatabaseUnavailable("away")
    await run.fail()
    await world.advance(5)
    assert (await world.outcomes(agent))[0] is Outcome.FAILED
    [span] = await world.storage.traces.list_spans(run.run.id, None, 9)
    assert span.ended_at is not None
