"""The handlers of requests: each replies with its own type, and stores the effect first."""

import pytest

from storage.model import AgentStatus, Outcome
from supervisors.engine.messages import (
    OwnedFieldsRequest,
    RunAnswer,
    RunReply,
    RunRequest,
    SleepGranted,
    SleepRequest,
    StopReply,
    StopRequest,
)
from supervisors.errors import AgentGone, NoStarts
from tests.supervisors.world import World

ARCHIVE = OwnedFieldsRequest(status=AgentStatus.ARCHIVED)


async def test_each_request_gets_its_own_kind_of_reply(world: World) -> None:
    agent = await world.agent()

    started = await world.ask(agent, RunRequest())
    assert started.run is not None
    assert await world.ask(agent, RunRequest()) == RunReply(RunAnswer.ALREADY_RUNNING, started.run)
    assert await world.ask(agent, SleepRequest(started.run, world.at(60))) == SleepGranted(
        world.at(60), False
    )
    await world.puppets[agent.id].end(Outcome.SLEPT)
    assert await world.ask(agent, StopRequest()) is StopReply.NOT_RUNNING


async def test_run_request_while_no_run_may_start_is_refused(world: World) -> None:
    agent = await world.agent()
    world.registry.allow_starts(False)

    with pytest.raises(NoStarts):
        await world.ask(agent, RunRequest())
    assert (await world.state(agent)).run_requested_at is None


async def test_write_of_status_and_schedule_applies_both(world: World) -> None:
    agent = await world.agent()
    await world.start(agent)

    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING, sleep_until=world.at(600)))
    await world.go_to(600)

    assert await world.wakes(agent) == [(0, "run_requested"), (600, "sleep_elapsed")]


async def test_write_of_status_running_is_a_run_request(world: World) -> None:
    agent = await world.agent()

    await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.RUNNING))

    assert await world.wakes(agent) == [(0, "run_requested")]


async def test_requests_to_a_missing_agent_raise_agent_gone(world: World) -> None:
    agent = await world.agent()
    await world.delete(agent)

    with pytest.raises(AgentGone):
        await world.ask(agent, RunRequest())
    with pytest.raises(AgentGone):
        await world.ask(agent, StopRequest())
    with pytest.raises(AgentGone):
        await world.ask(agent, ARCHIVE)
    assert world.registry.status.numbers().supervisors.active == 0
