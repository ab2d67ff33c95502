"""A paused organization: its runs are stopped, its starts held, however it was paused; then all goes on."""

from uuid import UUID

import pytest

from storage.errors import DatabaseUnavailable
from storage.identity.organizations import Organizations
from storage.model import Agent, Outcome, Source
from storage.postgres.pool import Pool
from supervisors.engine.broadcast import tell_agents_of
from supervisors.engine.messages import OwnedFields, RunAnswer, RunRequest, StopReply, StopRequest
from supervisors.maintenance.pause_sync import PauseSync
from supervisors.policy.phases import Phase
from tests.supervisors.world import RiggedStates, World, open_world


class Organization:
    """The organization of a world's agents, paused and unpaused as another program would: by its row."""

    def __init__(self, world: World, organization_id: UUID) -> None:
        self.world = world
        self.id = organization_id
        self.duty = self.new_duty()

    def new_duty(self) -> PauseSync:
        """The duty as a process begins with it."""
        world = self.world
        return PauseSync(world.states, Organizations(world.pool), world.registry, world.clock)

    async def pause(self) -> None:
        """Pause it, and let the service find out."""
        await self.write(paused=True)
        await self.notice()

    async def unpause(self) -> None:
        await self.write(paused=False)
        await self.notice()

    async def write(self, *, paused: bool) -> None:
        await Organizations(self.world.pool).update(self.id, {"paused": paused})

    async def notice(self) -> None:
        await self.duty.run_once()
        await stopped_runs_gone(self.world)


async def stopped_runs_gone(world: World) -> None:
    """Return when the runs that were asked to stop have done so."""
    await world.quiet()
    for puppet in list(world.puppets.values()):
        if puppet.run.stopping and not puppet.is_stubborn:
            await puppet.gone()


async def organization_of(agent: Agent, world: World) -> Organization:
    """The agent's organization, which the service has seen unpaused."""
    organization = Organization(world, agent.organization_id)
    await organization.notice()
    return organization


async def test_a_pause_ends_the_runs_of_its_organization_alone(world: World) -> None:
    agent, neighbour = await world.agent(), await world.agent(await world.organization())
    organization = await organization_of(agent, world)
    for each in (agent, neighbour):
        await world.start(each)
    await world.go_to(5)

    await organization.pause()

    assert await world.outcomes(agent) == [Outcome.STOPPED]
    assert await world.outcomes(neighbour) == [None]
    assert await world.phase(agent) is Phase.PAUSED
    state = await world.state(agent)
    assert (state.stopped_at, state.next_due_at, state.failures) == (None, None, 0)


async def test_what_a_paused_run_left_uncleared_is_taken_up_again(world: World) -> None:
    agent = await world.agent()
    organization = await organization_of(agent, world)
    await world.notify(agent)
    await world.go_to(5)
    await organization.pause()
    await world.go_to(60)

    await organization.unpause()

    assert await world.wakes(agent) == [(0, "notification:api"), (60, "uncleared_notifications")]


async def test_a_run_that_had_a_sleep_to_return_to_returns_to_it(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(90))
    organization = await organization_of(agent, world)
    await world.start(agent)
    await organization.pause()
    await world.go_to(60)

    await organization.unpause()

    assert (await world.agent_now(agent.id)).sleep_until == world.at(90)
    await world.go_to(100)
    assert await world.wakes(agent) == [(0, "run_requested"), (90, "sleep_elapsed")]


async def test_nothing_starts_during_a_pause(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(10), debounce_window_seconds=5)
    organization = await organization_of(agent, world)
    await organization.pause()
    await world.remind(agent, 20)
    await world.sms(agent)
    await world.notify(agent)
    await world.go_to(300)

    reply = await world.ask(agent, RunRequest())

    assert (reply.status, reply.run) == (RunAnswer.PAUSED, None)
    assert await world.phase(agent) is Phase.PAUSED
    assert await world.wakes(agent) == []


@pytest.mark.parametrize("window", [0, 5])
async def test_a_stop_during_a_pause_ends_the_start_that_it_holds(world: World, window: int) -> None:
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


async def test_a_stop_while_a_pause_stops_the_run_waits_for_it(world: World) -> None:
    agent = await world.agent()
    organization = await organization_of(agent, world)
    puppet = await world.start(agent)
    await organization.write(paused=True)
    await organization.duty.run_once()

    assert await world.ask(agent, StopRequest()) is StopReply.STOPPED

    assert puppet.run.result is not None
    assert (await world.state(agent)).stopped_at is not None


async def test_a_stop_during_a_pause_leaves_a_plain_sleep_as_it_is(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(90))
    organization = await organization_of(agent, world)
    await organization.pause()

    assert await world.ask(agent, StopRequest()) is StopReply.NOT_RUNNING

    assert (await world.agent_now(agent.id)).sleep_until == world.at(90)


async def test_the_scans_leave_a_paused_agent_alone(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(10))
    organization = await organization_of(agent, world)
    await organization.pause()
    await world.notify(agent)
    told = (await world.see(agent)).recent

    for second in (100, 200, 300):
        await world.go_to(second)
        await organization.notice()

    assert (await world.see(agent)).recent == told


async def test_of_all_that_a_pause_held_back_the_notification_activated_last_is_the_reason(
    world: World,
) -> None:
    agent = await world.agent(sleep_until=world.at(10), debounce_window_seconds=5)
    organization = await organization_of(agent, world)
    await organization.pause()
    await world.remind(agent, 20)
    await world.go_to(30)
    await world.sms(agent)
    await world.go_to(100)

    await organization.unpause()

    assert await world.wakes(agent) == [(100, "notification:sms")]


async def test_a_reminder_that_fell_due_last_is_the_reason(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(10))
    organization = await organization_of(agent, world)
    await organization.pause()
    await world.notify(agent, Source.PORTAL)
    await world.remind(agent, 20)
    await world.go_to(100)

    await organization.unpause()

    assert await world.wakes(agent) == [(100, "reminder")]


async def test_a_sleep_that_ended_during_the_pause_ends_with_it(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(10))
    organization = await organization_of(agent, world)
    await organization.pause()
    await world.go_to(100)

    await organization.unpause()

    assert await world.wakes(agent) == [(100, "sleep_elapsed")]


async def test_a_hold_that_outlasts_the_pause_goes_on(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    organization = await organization_of(agent, world)
    await world.sms(agent)
    await organization.pause()
    await world.go_to(30)

    await organization.unpause()

    assert await world.phase(agent) is Phase.HOLDING
    await world.go_to(100)
    assert await world.wakes(agent) == [(60, "notification:sms")]


async def test_what_lies_ahead_after_the_pause_happens_at_its_moment(world: World) -> None:
    reminded, sleeper = await world.agent(), await world.agent()
    organization = await organization_of(reminded, world)
    await organization.pause()
    await world.remind(reminded, 150)
    await world.ask(sleeper, OwnedFields(sleep_until=world.at(160)))
    await world.go_to(100)

    await organization.unpause()

    await world.go_to(200)
    assert await world.wakes(reminded) == [(150, "reminder")]
    assert await world.wakes(sleeper) == [(160, "sleep_elapsed")]


async def test_a_start_that_waits_for_a_slot_leaves_the_line_for_the_pause(pool: Pool) -> None:
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


async def test_a_run_that_takes_its_time_is_stopping_and_another_is_not_promised(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent()
    organization = await organization_of(agent, world)
    run = await world.start(agent)

    await organization.pause()

    seen = await world.see(agent)
    assert (seen.phase, seen.since) == (Phase.STOPPING, world.at(0))
    assert seen.why == "Its organization is paused; its run was asked to stop and has not ended yet."
    assert (await world.ask(agent, RunRequest())).status is RunAnswer.PAUSED
    run.run.cancel()
    await run.gone()
    assert await world.outcomes(agent) == [Outcome.STOPPED]
    assert await world.phase(agent) is Phase.PAUSED


async def test_a_run_that_was_being_stopped_when_the_pause_ended_is_followed_by_what_is_due(
    world: World,
) -> None:
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


async def test_a_run_requested_while_the_last_one_is_still_being_stopped_follows_it(world: World) -> None:
    world.puppets_are_stubborn = True
    agent = await world.agent()
    organization = await organization_of(agent, world)
    run = await world.start(agent)
    await organization.pause()
    await organization.unpause()
    await world.go_to(3)

    assert (await world.ask(agent, RunRequest())).status is RunAnswer.QUEUED
    run.run.cancel()
    await run.gone()

    assert await world.wakes(agent) == [(0, "run_requested"), (3, "run_requested")]


async def test_a_run_that_died_with_the_process_in_a_pause_is_no_failure(world: World) -> None:
    agent = await world.agent()
    organization = await organization_of(agent, world)
    await world.start(agent)
    await organization.write(paused=True)

    await world.restart()

    assert await world.outcomes(agent) == [Outcome.STOPPED]
    assert await world.phase(agent) is Phase.PAUSED
    assert (await world.state(agent)).failures == 0


async def test_a_pause_that_ended_while_no_process_ran_is_made_good_at_the_start(world: World) -> None:
    due, reminded, asleep, retried = [await world.agent() for _ in range(4)]
    organization = await organization_of(due, world)
    await (await world.start(retried)).fail()
    await organization.pause()
    await world.ask(due, OwnedFields(sleep_until=world.at(10)))
    await world.remind(reminded, 150)
    await world.ask(asleep, OwnedFields(sleep_until=world.at(160)))
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


async def test_a_pause_goes_on_over_a_restart(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(10))
    organization = await organization_of(agent, world)
    await organization.pause()
    await world.restart()
    again = Organization(world, organization.id)
    await again.notice()
    await world.go_to(100)
    assert await world.wakes(agent) == []

    await again.unpause()

    assert await world.wakes(agent) == [(100, "sleep_elapsed")]


class UnluckyStates(RiggedStates):
    """The database is away for the first who asks whom a pause concerns."""

    is_away = True

    async def list_concerned(self, organization_id: UUID, after: UUID | None, limit: int) -> list[UUID]:
        if self.is_away:
            self.is_away = False
            raise DatabaseUnavailable("away")
        return await super().list_concerned(organization_id, after, limit)


async def test_who_could_not_be_told_is_told_the_next_time(world: World) -> None:
    agent = await world.agent()
    organization = await organization_of(agent, world)
    unlucky = UnluckyStates(world.pool)
    duty = PauseSync(unlucky, Organizations(world.pool), world.registry, world.clock)
    await duty.run_once()
    await world.start(agent)
    await organization.write(paused=True)

    with pytest.raises(DatabaseUnavailable):
        await duty.run_once()
    assert await world.outcomes(agent) == [None]
    await duty.run_once()
    await stopped_runs_gone(world)

    assert await world.outcomes(agent) == [Outcome.STOPPED]
    await unlucky.close()


async def test_only_those_with_something_ahead_are_told(world: World) -> None:
    idle, waiting = await world.agent(), await world.agent()
    await world.ask(waiting, OwnedFields(sleep_until=world.at(600)))
    before = (await world.see(idle)).recent

    await tell_agents_of(idle.organization_id, world.states, world.registry)
    await world.quiet()

    assert (await world.see(idle)).recent == before
    assert (await world.see(waiting)).recent[-1].message == "reload"


async def phases(world: World) -> dict[str, int]:
    """How many supervisors an operator is told there are in each phase."""
    return world.registry.status.overview().supervisors.by_phase


@pytest.mark.parametrize("is_told_by_the_duty", [True, False])
async def test_a_pause_and_its_end_show_at_once_in_the_phases_of_all_live_supervisors(
    world: World, is_told_by_the_duty: bool
) -> None:
    idle, archived, unconcerned = await world.agent(), await world.agent(), await world.agent()
    organization = await organization_of(idle, world)
    stranger = await world.agent(await world.organization())
    for agent in (idle, unconcerned, stranger):
        await world.ask(agent, StopRequest())
    await world.ask(archived, OwnedFields(status=archived.status.ARCHIVED))

    async def turn(*, paused: bool) -> dict[str, int]:
        await organization.write(paused=paused)
        if is_told_by_the_duty:
            await organization.notice()
        else:
            await tell_agents_of(organization.id, world.states, world.registry)
            await world.quiet()
        return await phases(world)

    assert await turn(paused=True) == {"paused": 2, "archived": 1, "asleep": 1}
    assert await turn(paused=False) == {"asleep": 3, "archived": 1}


async def test_a_supervisor_that_was_looking_when_the_pause_began_looks_again(world: World) -> None:
    agent = await world.agent()
    organization = await organization_of(agent, world)

    async def pause() -> None:
        await organization.write(paused=True)
        await tell_agents_of(organization.id, world.states, world.registry)

    world.states.after_next_look = pause
    await world.ask(agent, StopRequest())

    assert await phases(world) == {"paused": 1}


async def test_what_fell_due_in_a_pause_that_ended_while_no_run_might_start_wakes_when_one_may(
    world: World,
) -> None:
    agent = await world.agent()
    await world.ask(agent, OwnedFields(sleep_until=world.at(60)))
    await world.pause(agent.organization_id, True)
    await world.go_to(90)
    world.registry.allow_starts(False)
    await world.pause(agent.organization_id, False)
    assert await world.wakes(agent) == []

    world.registry.allow_starts(True)
    await world.scan.recover()
    await world.quiet()

    assert await world.wakes(agent) == [(90, "sleep_elapsed")]
