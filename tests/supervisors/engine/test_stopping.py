"""Stop, archive, restore and delete: what they end, and what continues."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from storage.model import Agent, AgentStatus, Outcome, Source
from storage.postgres.pool import Pool
from supervisors.engine.messages import (
    OwnedFieldsRequest,
    RunAnswer,
    RunRequest,
    Signal,
    StopReply,
    StopRequest,
)
from supervisors.policy.phases import Phase
from tests.nodes import LoneNode
from tests.supervisors.world import World, open_world

OTHER_NODE = 7
START_ELSEWHERE = """
UPDATE agent_state SET status = 'running', run_id = $2, run_started_at = $3, last_started_at = $3,
    phase = 'running', node_id = $4, version = version + 1 WHERE agent_id = $1
"""
STOPPING_ELSEWHERE = "UPDATE agent_state SET phase = 'stopping', version = version + 1 WHERE agent_id = $1"

ARCHIVE = OwnedFieldsRequest(status=AgentStatus.ARCHIVED)
RESTORE = OwnedFieldsRequest(status=AgentStatus.SLEEPING)


async def test_stop_ends_the_run_and_its_interrupted_sleep(world: World) -> None:
    agent = await world.agent(max_sleep_hours=1)
    run = await world.start(agent)
    await world.go_to(5)

    assert await world.ask(agent, StopRequest()) is StopReply.STOPPED

    stopped, trace = await world.agent_now(agent.id), await world.storage.traces.get(run.run.id)
    assert (stopped.status, stopped.sleep_until) == (AgentStatus.SLEEPING, None)
    assert await world.outcomes(agent) == [Outcome.STOPPED]
    assert trace is not None
    assert (trace.ended_at, trace.error) == (world.at(5), "stopped")


async def test_stop_is_answered_stopped_within_a_second(pool: Pool) -> None:
    async with open_world(pool, runs={"stop_grace_seconds": 0.8}) as world:
        agent = await world.agent()
        world.puppets_are_stubborn = True
        await world.start(agent)

        assert await world.ask(agent, StopRequest(), answered_within=1) is StopReply.STOPPED
        [run] = await world.ledger(agent)
        assert (run.outcome, run.ended_at) == (Outcome.STOPPED, world.at(0.8))


async def test_stop_is_not_answered_stopped_when_another_node_has_just_started(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.supervisors.world.ring_nobody", lambda *_: None)
    monkeypatch.setattr(LoneNode, "is_living", lambda node, each: each in {node.node_id, OTHER_NODE})
    async with open_world(pool) as world:
        agent = await world.agent(debounce_window_seconds=60)
        await world.notify(agent, source=Source.SMS)

        async def start_elsewhere() -> None:
            await pool.execute(START_ELSEWHERE, agent.id, uuid4(), world.clock.now(), OTHER_NODE)

        world.states.after_next_read = start_elsewhere
        assert await world.ask(agent, StopRequest(waits=False)) is StopReply.STOPPING


async def test_pause_of_another_node_stops_the_run_though_it_has_ended(world: World, pool: Pool) -> None:
    agent = await world.agent()
    await world.start(agent)

    await pool.execute(STOPPING_ELSEWHERE, agent.id)  # a pause that ended before this node heard of it
    world.registry.tell(agent.id, Signal.RELOAD)
    await world.wait_until_idle()

    assert await world.outcomes(agent) == [Outcome.STOPPED]


async def test_forced_stop_gives_no_grace(pool: Pool) -> None:
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        agent = await world.agent()
        world.puppets_are_stubborn = True
        await world.start(agent)
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))  # a stop with the full grace

        assert await world.ask(agent, StopRequest(force=True)) is StopReply.STOPPED
        assert await world.outcomes(agent) == [Outcome.STOPPED]


async def test_stop_while_stopping_cancels_the_following_start(pool: Pool) -> None:
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        agent = await world.agent()
        world.puppets_are_stubborn = True
        run = await world.start(agent)
        await world.ask(agent, OwnedFieldsRequest(status=AgentStatus.SLEEPING))
        assert (await world.ask(agent, RunRequest())).status is RunAnswer.QUEUED
        await world.go_to(1)
        await world.notify(agent)

        await world.go_to(2)
        assert await world.ask(agent, StopRequest()) is StopReply.STOPPING
        await run.end()
        await world.go_to(600)

        assert len(await world.wakes(agent)) == 1


async def backs_off(world: World) -> Agent:
    agent = await world.agent()
    await world.notify(agent)
    await world.puppets[agent.id].end()
    assert await world.phase(agent) is Phase.BACKING_OFF
    return agent


async def waits_for_a_slot(world: World) -> Agent:
    await world.start(await world.agent())
    agent = await world.agent()
    await world.ask(agent, RunRequest())
    assert await world.phase(agent) is Phase.QUEUED
    return agent


async def is_quarantined(world: World) -> Agent:
    agent = await world.agent()
    await world.ask(agent, RunRequest())
    for second in (0, 1, 3, 7, 15):
        await world.go_to(second)
        await world.puppets[agent.id].fail()
    assert await world.phase(agent) is Phase.QUARANTINED
    return agent


@pytest.mark.parametrize("about_to_start", [backs_off, waits_for_a_slot, is_quarantined])
async def test_stop_cancels_whatever_was_about_to_start(
    pool: Pool, about_to_start: Callable[[World], Awaitable[Agent]]
) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        agent = await about_to_start(world)
        before = await world.wakes(agent)

        assert await world.ask(agent, StopRequest()) is StopReply.STOPPED
        assert await world.phase(agent) is Phase.ASLEEP
        await world.advance(4000)
        for other in list(world.puppets.values()):
            await other.end()
        await world.restart()

        assert await world.wakes(agent) == before


@pytest.mark.parametrize("cause", ["notification", "reminder", "schedule", "request"])
async def test_start_forgets_the_stop(world: World, cause: str) -> None:
    agent = await world.agent()
    old = await world.notify(agent)
    await world.remind(agent, 600)
    await world.go_to(5)
    await world.ask(agent, StopRequest())

    match cause:
        case "notification":
            await world.go_to(600 - 1)
            await world.notify(agent)
        case "reminder":
            await world.go_to(600)
        case "schedule":
            await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(500)))
            await world.go_to(500)
        case "request":
            await world.ask(agent, RunRequest())

    run = world.puppets[agent.id]
    assert str(old.id) in await run.lists()
    assert (await world.state(agent)).stopped_at is None
    await run.end()
    assert await world.phase(agent) is Phase.BACKING_OFF


async def test_archive_is_shown_at_once_and_stops_the_run(world: World) -> None:
    agent = await world.agent(max_sleep_hours=1)
    run = await world.start(agent)

    await world.registry.ask(agent.id, ARCHIVE)
    assert (await world.agent_now(agent.id)).status is AgentStatus.ARCHIVED
    await run.gone()

    stopped = await world.agent_now(agent.id)
    assert (stopped.status, stopped.sleep_until, stopped.run_started_at) == (AgentStatus.ARCHIVED, None, None)
    assert await world.outcomes(agent) == [Outcome.STOPPED]


async def test_restore_wakes_at_once_for_waiting_messages(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.go_to(10)
    await world.ask(agent, ARCHIVE)
    await world.go_to(20)
    await world.sms(agent)
    await world.go_to(30)
    await world.ask(agent, RESTORE)

    assert await world.wakes(agent) == [(30, "notification:sms")]


async def test_agent_restored_while_stopping_wakes_after_its_run(pool: Pool) -> None:
    async with open_world(pool, runs={"stop_grace_seconds": 3600}) as world:
        agent = await world.agent(debounce_window_seconds=60)
        world.puppets_are_stubborn = True
        await world.notify(agent)
        run = world.puppets[agent.id]
        await world.go_to(5)
        await world.ask(agent, ARCHIVE)
        await world.ask(agent, RESTORE)
        seen = await world.see(agent)
        assert seen.phase is Phase.STOPPING
        assert seen.why.startswith("Its run was asked to stop and has not ended yet")

        await world.go_to(6)
        await run.end()

        assert await world.wakes(agent) == [(0, "notification:api"), (6, "notification:api")]


async def test_deleted_agent_has_no_hold_queue_or_run(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        running = await world.agent()
        await world.start(running)
        held, queued = await world.agent(debounce_window_seconds=60), await world.agent()
        await world.sms(held)
        await world.ask(queued, RunRequest())

        run = world.puppets[running.id]
        for agent in (held, queued, running):
            await world.delete(agent)
        await run.gone()
        await world.go_to(600)

        numbers = world.registry.status.numbers()
        assert (numbers.runs.running, numbers.runs.queued) == (0, 0)
        assert world.puppets == {}


async def test_concurrent_stops_are_both_answered(world: World) -> None:
    agent = await world.agent()
    await world.start(agent)

    replies = await asyncio.gather(*(world.registry.ask(agent.id, StopRequest()) for _ in range(2)))

    assert replies[0] is StopReply.STOPPED
    assert replies[1] in {StopReply.STOPPING, StopReply.STOPPED}
    await world.wait_until_idle()
    assert await world.phase(agent) is Phase.ASLEEP


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_reason_of_stopped_hold_is_explained(world: World, is_restarted: bool) -> None:
    agent = await world.agent(debounce_window_seconds=60)
    await world.sms(agent)
    await world.ask(agent, StopRequest(reason="The customer calls back."))
    if is_restarted:
        await world.restart()

    assert (await world.see(agent)).why == (
        'Stopped at 2126-11-21 09:00 UTC for the reason "The customer calls back.": '
        "notifications from before that do not start it. "
        "Asleep until a high-priority notification, a reminder or a run request wakes it."
    )
