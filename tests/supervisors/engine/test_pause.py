"""A paused organization: its runs are stopped and its starts held, until the pause ends."""

from uuid import UUID

import pytest

from storage.identity.instance import Instance
from storage.identity.organizations import Organizations
from storage.model import Agent, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunAnswer, RunRequest, StopReply, StopRequest
from supervisors.engine.registry import tell_agents_of
from supervisors.maintenance.scans import PauseSync
from supervisors.policy.explanations import ITS_RUN_STOPS, why_instance_paused
from supervisors.policy.phases import Phase
from tests.supervisors.world import World, open_world


class Organization:
    """The organization of a world's agents, paused by writing its row, as another program would."""

    def __init__(self, world: World, organization_id: UUID) -> None:
        self.world = world
        self.id = organization_id
        self.pause_sync = self.new_pause_sync()

    def new_pause_sync(self) -> PauseSync:
        """Create the PauseSync of a process that has just started."""
        world = self.world
        return PauseSync(world.states, Organizations(world.pool), world.registry, world.clock)

    async def pause(self) -> None:
        """Pause or unpause it, and let the service notice."""
        await self.write(paused=True)
        await self.notice()

    async def unpause(self) -> None:
        await self.write(paused=False)
        await self.notice()

    async def write(self, *, paused: bool) -> None:
        await Organizations(self.world.pool).update(self.id, {"paused": paused}, self.world.clock.now())

    async def notice(self) -> None:
        await self.pause_sync.run_once()
        await wait_for_stopped_runs(self.world)


async def wait_for_stopped_runs(world: World) -> None:
    """Wait until the runs that were asked to stop have stopped."""
    await world.wait_until_idle()
    for puppet in list(world.puppets.values()):
        if puppet.run.is_stopping and not puppet.is_stubborn:
            await puppet.gone()


async def organization_of(agent: Agent, world: World) -> Organization:
    """Return the agent's organization, after the service has seen it unpaused."""
    organization = Organization(world, agent.organization_id)
    await organization.notice()
    return organization


async def test_pause_ends_only_runs_of_its_organization(world: World) -> None:
    agent, neighbour = await world.agent(), await world.agent(await world.organization())
    organization = await organization_of(agent, world)
    for either in (agent, neighbour):
        await world.start(either)
    await world.go_to(5)

    await organization.pause()

    assert await world.outcomes(agent) == [Outcome.STOPPED]
    assert await world.outcomes(neighbour) == [None]
    assert await world.phase(agent) is Phase.PAUSED
    state = await world.state(agent)
    assert (state.stopped_at, state.next_due_at, state.failures) == (None, None, 0)


async def test_uncleared_notifications_of_paused_run_wake_after_pause(world: World) -> None:
    agent = await world.agent()
    organization = await organization_of(agent, world)
    await world.notify(agent)
    await world.go_to(5)
    await organization.pause()
    await world.go_to(60)

    await organization.unpause()

    assert await world.wakes(agent) == [(0, "notification:api"), (60, "uncleared_notifications")]


async def test_paused_run_returns_to_its_interrupted_sleep(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(90))
    organization = await organization_of(agent, world)
    await world.start(agent)
    await organization.pause()
    await world.go_to(60)

    await organization.unpause()

    assert (await world.agent_now(agent.id)).sleep_until == world.at(90)
    await world.go_to(100)
    assert await world.wakes(agent) == [(0, "run_requested"), (90, "sleep_elapsed")]


@pytest.mark.parametrize("window", [0, 5])
async def test_stop_during_a_pause_cancels_the_held_start(world: World, window: int) -> None:
    agent = await world.agent(debounce_window_seconds=window)
    organization = await organization_of(agent, world)
    await organization.pause()
    await world.sms(agent)
    await world.go_to(60)

    assert await world.ask(agent, StopRequest()) is StopReply.STOPPED

    assert await world.phase(agent) is Phase.PAUSED
    await organization.unpause()
    await world.go_to(120)
    assert await world.wakes(agent) == []


async def test_stop_waits_for_a_run_that_a_pause_stops(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent()
    organization = await organization_of(agent, world)
    puppet = await world.start(agent)
    await organization.pause()

    assert await world.ask(agent, StopRequest(force=True)) is StopReply.STOPPED

    assert puppet.run.result is not None
    assert (await world.state(agent)).stopped_at is not None


async def test_pause_removes_a_queued_start_from_the_queue(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        busy, agent = await world.agent(await world.organization()), await world.agent()
        organization = await organization_of(agent, world)
        run = await world.start(busy)
        assert (await world.ask(agent, RunRequest())).status is RunAnswer.QUEUED

        await organization.pause()
        await run.end()
        assert await world.wakes(agent) == []

        await organization.unpause()
        assert await world.wakes(agent) == [(0, "run_requested")]


async def test_run_stopped_by_pause_is_followed_by_due_start(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent()
    organization = await organization_of(agent, world)
    run = await world.start(agent)
    await world.go_to(2)
    await organization.pause()
    await world.notify(agent)
    await organization.unpause()

    assert await world.phase(agent) is Phase.STOPPING
    run.run.cancel()
    await run.gone()

    assert await world.wakes(agent) == [(0, "run_requested"), (2, "notification:api")]
    assert (await world.outcomes(agent))[0] is Outcome.STOPPED


async def test_run_interrupted_during_a_pause_is_no_failure(world: World) -> None:
    agent = await world.agent()
    organization = await organization_of(agent, world)
    await world.start(agent)
    await organization.write(paused=True)

    await world.restart()

    assert await world.outcomes(agent) == [Outcome.STOPPED]
    assert await world.phase(agent) is Phase.PAUSED
    assert (await world.state(agent)).failures == 0


async def test_pause_that_ended_while_down_is_noticed_at_start(world: World) -> None:
    due, reminded, asleep, retried = [await world.agent() for _ in range(4)]
    organization = await organization_of(due, world)
    await (await world.start(retried)).fail()
    await organization.pause()
    await world.ask(due, OwnedFieldsRequest(sleep_until=world.at(10)))
    await world.remind(reminded, 150)
    await world.ask(asleep, OwnedFieldsRequest(sleep_until=world.at(160)))
    await world.die()
    await organization.write(paused=False)
    world.clock.advance(100)
    await world.begin()

    await Organization(world, organization.id).notice()

    assert await world.wakes(due) == [(100, "sleep_elapsed")]
    assert (await world.wakes(retried))[1:] == [(100, "retry_after_failure")]
    await world.go_to(200)
    assert await world.wakes(reminded) == [(150, "reminder")]
    assert await world.wakes(asleep) == [(160, "sleep_elapsed")]


async def phases(world: World) -> dict[str, int]:
    """Return the number of supervisors in each phase, as the numbers shows it."""
    return world.registry.status.numbers().supervisors.by_phase


@pytest.mark.parametrize("by_pause_sync", [True, False])
async def test_pause_changes_the_phase_of_live_supervisors_at_once(world: World, by_pause_sync: bool) -> None:
    idle, archived, unconcerned = await world.agent(), await world.agent(), await world.agent()
    organization = await organization_of(idle, world)
    stranger = await world.agent(await world.organization())
    for agent in (idle, unconcerned, stranger):
        await world.ask(agent, StopRequest())
    await world.ask(archived, OwnedFieldsRequest(status=archived.status.ARCHIVED))

    async def set_paused(*, paused: bool) -> dict[str, int]:
        await organization.write(paused=paused)
        if by_pause_sync:
            await organization.notice()
        else:
            await tell_agents_of(organization.id, world.states, world.registry)
            await world.wait_until_idle()
        return await phases(world)

    assert await set_paused(paused=True) == {"paused": 2, "archived": 1, "asleep": 1}
    assert await set_paused(paused=False) == {"asleep": 3, "archived": 1}


async def test_pause_during_reconcile_causes_another_reconcile(world: World) -> None:
    agent = await world.agent()
    organization = await organization_of(agent, world)

    async def pause() -> None:
        await organization.write(paused=True)
        await tell_agents_of(organization.id, world.states, world.registry)

    world.states.after_next_read = pause
    await world.ask(agent, StopRequest())

    assert await phases(world) == {"paused": 1}


async def test_reminder_due_during_pause_wakes_when_starts_are_allowed(world: World) -> None:
    agent = await world.agent()
    await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(60)))
    await world.pause(agent.organization_id, True)
    await world.go_to(90)
    world.registry.allow_starts(False)
    await world.pause(agent.organization_id, False)
    assert await world.wakes(agent) == []

    world.registry.allow_starts(True)
    await world.scan.recover()
    await world.wait_until_idle()

    assert await world.wakes(agent) == [(90, "sleep_elapsed")]


async def test_pause_of_the_instance_holds_all_organizations(world: World) -> None:
    agent, neighbour = await world.agent(), await world.agent(await world.organization())
    organization, instance = await organization_of(agent, world), Instance(world.pool)
    await world.start(agent)
    await world.go_to(5)

    since = world.clock.now()
    await instance.set_paused(since, "a test wants it")
    why = why_instance_paused(since, "a test wants it")
    await organization.pause_sync.run_once()
    assert (await world.see(agent)).why == f"{why} {ITS_RUN_STOPS}"
    await wait_for_stopped_runs(world)
    await world.remind(neighbour, 20)
    await world.remind(neighbour, 30)
    await world.notify(agent)
    await world.go_to(300)
    await world.scan.run_once()
    await organization.notice()

    assert await phases(world) == {"paused": 2}
    assert (await world.see(neighbour)).why == why
    assert (await world.state(neighbour)).next_due_at is None
    assert await world.wakes(neighbour) == []
    await instance.set_paused(world.clock.now(), "")
    await organization.notice()
    assert await world.wakes(neighbour) == [(300, "reminder")]
    assert len(await world.wakes(agent)) == 2
