"""The pause of one agent: its run is stopped and its starts are held, until the pause ends."""

import pytest

from storage.model import Agent, AgentStatus, Outcome
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunAnswer, RunRequest
from supervisors.maintenance.watches import StuckAgentWatch
from supervisors.policy.explanations import (
    WHY_AGENT_PAUSED,
    WHY_BOTH_PAUSED,
    WHY_STOPPING_FOR_AGENT_PAUSE,
)
from supervisors.policy.phases import Phase
from tests.supervisors.engine.test_pause import wait_for_stopped_runs
from tests.supervisors.engine.test_record import list_changes, require_record_equals_why
from tests.supervisors.world import World, open_world


async def pause(world: World, agent: Agent, *, paused: bool = True) -> None:
    """Pause the agent or end its pause, and let a stopped run end."""
    await world.ask(agent, OwnedFieldsRequest(paused=paused, caller="user:7"))
    await wait_for_stopped_runs(world)


async def test_pause_of_an_agent_stops_its_run_only(world: World) -> None:
    agent, sibling = await world.agent(), await world.agent()
    for either in (agent, sibling):
        await world.start(either)
    await world.go_to(5)

    await pause(world, agent)

    assert await world.outcomes(agent) == [Outcome.STOPPED]
    assert await world.outcomes(sibling) == [None]
    seen, state = await world.see(agent), await world.state(agent)
    assert (seen.phase, seen.why, seen.since) == (Phase.PAUSED, WHY_AGENT_PAUSED, world.at(5))
    assert (state.stopped_at, state.next_due_at, state.failures) == (None, None, 0)


async def test_events_in_the_pause_of_an_agent_wake_it_afterwards(world: World) -> None:
    agent = await world.agent(sleep_until=world.at(10), debounce_window_seconds=5)
    await pause(world, agent)
    await world.remind(agent, 20)
    await world.sms(agent)
    await world.notify(agent)
    await world.go_to(300)
    for _ in range(2):
        await world.scan.run_once()
        await world.wait_until_idle()

    reply = await world.ask(agent, RunRequest())

    assert (reply.status, reply.run) == (RunAnswer.PAUSED, None)
    assert await world.wakes(agent) == []
    await pause(world, agent, paused=False)
    assert await world.wakes(agent) == [(300, "reminder")]


async def test_pause_of_an_agent_outlasts_that_of_its_organization(world: World) -> None:
    agent = await world.agent()
    await pause(world, agent)
    await world.notify(agent)
    await world.pause(agent.organization_id, True)
    assert (await world.see(agent)).why == WHY_BOTH_PAUSED

    await world.pause(agent.organization_id, False)

    assert (await world.see(agent)).why == WHY_AGENT_PAUSED
    assert await world.wakes(agent) == []


async def test_archived_agent_keeps_its_pause(world: World) -> None:
    agent = await world.agent()
    await pause(world, agent)
    for status in (AgentStatus.ARCHIVED, AgentStatus.SLEEPING):
        await world.ask(agent, OwnedFieldsRequest(status=status))
    await world.notify(agent)

    assert (await world.see(agent)).phase is Phase.PAUSED
    assert await world.wakes(agent) == []


async def test_one_write_ends_a_pause_and_requests_a_run(world: World) -> None:
    agent = await world.agent()
    await pause(world, agent)

    await world.ask(agent, OwnedFieldsRequest(paused=False, status=AgentStatus.RUNNING))

    assert await world.wakes(agent) == [(0, "run_requested")]


async def test_pause_of_a_stubborn_run_says_that_it_stops(pool: Pool) -> None:
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        world.puppets_are_stubborn = True
        agent = await world.agent()
        run = await world.start(agent)

        await world.ask(agent, OwnedFieldsRequest(paused=True, caller="user:7"))

        seen = await world.see(agent)
        assert (seen.phase, seen.why) == (Phase.STOPPING, WHY_STOPPING_FOR_AGENT_PAUSE)
        await require_record_equals_why(world, agent)
        await run.end(Outcome.STOPPED)
        assert (await list_changes(world, agent))[-2:] == [
            ("agent.stopping", "running", "stopping"),
            ("agent.paused", "stopping", "paused"),
        ]


@pytest.mark.parametrize("is_running", [False, True])
async def test_pause_of_an_agent_survives_a_restart(world: World, is_running: bool) -> None:
    agent = await world.agent()
    await world.notify(agent) if is_running else await world.remind(agent, 10)
    await world.go_to(5)
    world.puppets_are_stubborn = True
    await world.ask(agent, OwnedFieldsRequest(paused=True))
    await world.restart()
    await world.go_to(300)
    await world.scan.run_once()
    await world.wait_until_idle()

    assert await world.phase(agent) is Phase.PAUSED
    runs_before = len(await world.wakes(agent))
    await pause(world, agent, paused=False)
    assert len(await world.wakes(agent)) == runs_before + 1


async def test_scans_leave_out_an_agent_that_is_paused(world: World) -> None:
    agent = await world.agent()
    await pause(world, agent)
    await world.notify(agent)
    await world.remind(agent, 10)
    await world.go_to(300)
    now, states = world.clock.now(), world.states
    watch = StuckAgentWatch(states, world.clock)
    await watch.run_once()
    await world.go_to(600)
    await watch.run_once()

    assert watch.reasons() == ()
    assert await states.list_with_active_notification(now, None, 9) == []
    assert await states.list_without_due_time(now, None, 9) == []
    assert await states.list_due(now, None, 9) == []
