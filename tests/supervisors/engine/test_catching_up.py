"""What a node tells its supervisors of rows that it has not seen, because a ring was lost."""

from storage.agent_facts import AgentState, RowVersion
from storage.model import Agent
from storage.postgres.pool import Pool
from tests.supervisors.world import World, open_world


async def messages(world: World, agent: Agent) -> list[str]:
    """Return the messages that the agent's supervisor has had."""
    snapshot = await world.registry.status.snapshot(agent.id)
    assert snapshot is not None
    return [each.message for each in snapshot.recent]


def row(state: AgentState, *, versions: int = 0, activations: int = 0) -> RowVersion:
    return RowVersion(state.agent_id, state.version + versions, state.wake_seq + activations)


async def test_supervisor_is_told_of_a_row_it_has_not_seen(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent(debounce_window_seconds=60)
        await world.sms(agent)
        state, told = await world.state(agent), await messages(world, agent)

        world.registry.catch_up(row(state))
        await world.wait_until_idle()
        assert await messages(world, agent) == told, "it has written that row itself"

        world.registry.catch_up(row(state, versions=1))
        await world.wait_until_idle()
        assert await messages(world, agent) == [*told, "reload"]


async def test_unseen_activation_is_told_as_a_notification(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent(debounce_window_seconds=60)
        await world.sms(agent)
        state, told = await world.state(agent), await messages(world, agent)

        world.registry.catch_up(row(state, activations=1))
        await world.wait_until_idle()

        assert await messages(world, agent) == [*told, "notified"]


async def test_unknown_row_is_told(pool: Pool) -> None:
    async with open_world(pool) as world:
        agent = await world.agent()

        world.registry.catch_up(row(await world.state(agent)))
        await world.wait_until_idle()

        assert await messages(world, agent) == ["reload"]


async def test_scan_brings_forward_the_timer_of_a_resting_supervisor(pool: Pool) -> None:
    """Another node may have accepted a reminder, and have died before it was due."""
    async with open_world(pool) as world:
        agent = await world.agent(debounce_window_seconds=60)
        await world.sms(agent)

        world.registry.schedule(agent.id, world.at(90))
        world.registry.schedule(agent.id, world.at(20))
        told = await messages(world, agent)
        await world.advance(20)

        assert await messages(world, agent) == [*told, "due"]
