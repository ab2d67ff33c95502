"""Holds while the wall clock is set: their length is that of the monotonic clock."""

import pytest

from storage.model import Agent
from storage.postgres.pool import Pool
from supervisors.engine.messages import StopRequest
from supervisors.policy.phases import Phase
from tests.supervisors.world import World, open_world

HOUR = 3600
WINDOW = 60
CAP = 300  # the configured maximum length of a hold of this window
STEPS = [-HOUR, -20, -0.5, 0.5, 20, HOUR]


async def ends_after(world: World, agent: Agent, seconds: float) -> None:
    """Let time pass and check that the hold of the agent ends after this many seconds, not before."""
    await world.advance(seconds - 0.1)
    assert agent.id not in world.puppets
    await world.advance(0.1)
    assert agent.id in world.puppets


@pytest.mark.parametrize("step", STEPS)
async def test_hold_lasts_its_window_after_clock_step(world: World, step: float) -> None:
    """Check I5."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(step)
    await world.scan.run_once()
    await ends_after(world, agent, WINDOW - 10)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("has_run_before", [False, True])
async def test_message_after_clock_step_extends_the_hold(
    world: World, step: float, has_run_before: bool
) -> None:
    """Check I5 and scenario 24."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    if has_run_before:
        await (await world.start(agent)).sleeps()
        await world.advance(5)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(step)
    await world.advance(1)
    await world.sms(agent)
    await world.advance(30)
    await world.sms(agent)
    await ends_after(world, agent, WINDOW)
    reasons = {run.wake_reason for run in await world.ledger(agent)}
    assert reasons - {"run_requested"} == {"notification:sms"}


async def test_queued_start_after_clock_step_needs_no_second_hold(pool: Pool) -> None:
    """Check I5: the hold has ended when the start is queued, whatever the wall clock shows later."""
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        agent = await world.agent(debounce_window_seconds=WINDOW)
        await world.sms(agent)
        await world.advance(10)
        world.clock.step(HOUR)
        await world.scan.run_once()
        run = await world.start(await world.agent())
        await world.advance(WINDOW)
        assert await world.phase(agent) is Phase.QUEUED

        await run.end()

        assert [reason for _, reason in await world.wakes(agent)] == ["notification:sms"]


async def test_several_clock_steps_leave_the_hold_its_length(world: World) -> None:
    """Check I5."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    for step in (-HOUR, 2 * HOUR, -30, 7, -3 * HOUR):
        await world.sms(agent)
        await world.advance(20)
        world.clock.step(step)
        await world.advance(5)
    await ends_after(world, agent, WINDOW - 25)


@pytest.mark.parametrize("step", STEPS)
async def test_clock_step_leaves_a_hold_its_maximum_length(world: World, step: float) -> None:
    """Check I5."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    for second in range(0, CAP, 20):
        await world.sms(agent)
        if second == 100:
            world.clock.step(step)
        assert agent.id not in world.puppets
        await world.advance(19.9)
        assert agent.id not in world.puppets
        await world.advance(0.1)
    assert agent.id in world.puppets


@pytest.mark.parametrize("step", STEPS)
async def test_message_cleared_after_clock_step_shortens_the_hold(world: World, step: float) -> None:
    """Check I5 and scenario 5."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(step)
    await world.advance(10)
    last = await world.sms(agent)
    await world.advance(10)
    await world.clear(last)
    await ends_after(world, agent, WINDOW - 30)


@pytest.mark.parametrize("step", STEPS)
async def test_messages_during_run_are_held_from_arrival_after_step(world: World, step: float) -> None:
    """Check I5 and scenario 1."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    run = await world.start(agent)
    await world.advance(10)
    await world.sms(agent)
    await world.advance(5)
    await world.scan.run_once()
    world.clock.step(step)
    await world.advance(5)
    await world.sms(agent)
    await world.advance(10)
    await run.end()
    await ends_after(world, agent, WINDOW - 10)


@pytest.mark.parametrize("step", STEPS)
async def test_window_changed_after_clock_step_applies_at_once(world: World, step: float) -> None:
    """Check scenario 11."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    world.clock.step(step)
    await world.advance(10)
    await world.change(agent, debounce_window_seconds=30)
    await ends_after(world, agent, 20)


@pytest.mark.parametrize("step", STEPS)
async def test_snapshot_shows_a_hold_by_the_present_clock(world: World, step: float) -> None:
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(step)
    await world.advance(10)
    for age in (20, 0):
        seen = await world.see(agent)
        now = world.clock.now()
        assert seen.phase is Phase.HOLDING
        assert seen.debounce is not None
        assert seen.next_wake is not None
        assert (now - seen.debounce.first_at).total_seconds() == pytest.approx(20, abs=0.02)
        assert (now - seen.debounce.last_at).total_seconds() == pytest.approx(age, abs=0.02)
        assert (seen.next_wake.at - now).total_seconds() == pytest.approx(WINDOW - age, abs=0.02)
        await world.sms(agent)


async def test_message_after_stop_and_clock_step_wakes(world: World) -> None:
    """Check I2."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.ask(agent, StopRequest())
    world.clock.step(-HOUR)
    await world.advance(1)
    await world.sms(agent)
    await ends_after(world, agent, WINDOW)


async def test_stop_after_clock_step_ends_the_hold(world: World) -> None:
    """Check scenario 3."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    world.clock.step(-HOUR)
    await world.advance(1)
    await world.sms(agent)
    assert await world.ask(agent, StopRequest()) == "stopped"
    await world.advance(2 * HOUR)
    assert await world.wakes(agent) == []


async def test_restart_after_clock_step_counts_stored_times(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(20)
    await world.restart()
    await ends_after(world, agent, WINDOW - 30)


async def test_restart_after_clock_set_back_holds_one_window(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(-HOUR)
    await world.restart()
    await world.advance(20)
    await world.sms(agent)
    await ends_after(world, agent, WINDOW)


async def test_restart_after_clock_set_back_ends_hold_without_message(world: World) -> None:
    """Check scenarios 19 and 24."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(-HOUR)
    await world.restart()
    await ends_after(world, agent, WINDOW)


async def test_hold_ends_although_clock_step_postpones_a_retry(world: World) -> None:
    """Check I5."""
    agent = await world.agent(debounce_window_seconds=2)
    await (await world.start(agent)).fail()
    await world.advance(0.5)
    await world.sms(agent)
    world.clock.step(-HOUR)
    await ends_after(world, agent, 2)


@pytest.mark.parametrize("step", STEPS)
async def test_hold_of_dropped_supervisor_keeps_its_maximum(world: World, step: float) -> None:
    """Check I5: the supervisor is made again for a message after the step, during a pause."""
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.pause(agent.organization_id, True)
    await world.sms(agent)
    await world.advance(CAP - 30)
    assert world.registry.drop_idle() == 1
    world.clock.step(step)
    await world.advance(10)
    await world.sms(agent)
    await world.pause(agent.organization_id, False)
    await ends_after(world, agent, 20)


async def test_supervisor_stays_while_it_alone_knows_a_hold(world: World) -> None:
    """Check I5: what is stored after a step back counts on from what was stored before."""
    agent = await world.agent(debounce_window_seconds=2 * WINDOW)
    await world.pause(agent.organization_id, True)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(-HOUR)
    await world.advance(5)
    await world.sms(agent)
    await world.advance(WINDOW + 1)
    assert world.registry.drop_idle() == 0
    await world.pause(agent.organization_id, False)
    await ends_after(world, agent, WINDOW - 1)


async def test_supervisor_of_paused_agent_is_dropped_after_hold(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=WINDOW)
    await world.pause(agent.organization_id, True)
    await world.sms(agent)
    await world.advance(10)
    world.clock.step(-HOUR)
    await world.sms(agent)
    await world.advance(CAP - 1)
    assert world.registry.drop_idle() == 0
    await world.advance(1)
    assert world.registry.drop_idle() == 1
