"""Limits on wakes: what they hold, what passes them, and when the agent starts again."""

from collections.abc import AsyncIterator

import pytest

from storage.model import Agent
from storage.postgres.pool import Pool
from supervisors.engine.messages import RunAnswer, RunRequest, StopReply, StopRequest
from supervisors.llm.inbox_model import InboxModel
from tests.storage.events.recorded import logged
from tests.supervisors.world import World, open_world

HOUR = 3600


@pytest.fixture
async def inbox(pool: Pool) -> AsyncIterator[World]:
    """Open a world whose runs clear what is there and sleep."""
    async with open_world(pool, model=InboxModel()) as world:
        yield world


async def jump_to(world: World, second: float) -> None:
    """Go to this second of the timeline; only the last minutes, with two scans, are simulated."""
    world.clock.step((world.at(second - 200) - world.clock.now()).total_seconds())
    await world.go_to(second)


async def agent_at_its_limit(world: World) -> Agent:
    """Create an agent that has woken twice in ten seconds, its limit of an hour, and has a notification."""
    agent = await world.agent(max_wakes_per_hour=2)
    for second in (0, 10, 20):
        await world.go_to(second)
        await world.notify(agent)
    assert [second for second, _ in await world.wakes(agent)] == [0, 10]
    return agent


async def test_one_run_starts_when_the_limit_of_an_hour_is_renewed(inbox: World, pool: Pool) -> None:
    agent = await agent_at_its_limit(inbox)
    for second in (30, 40):
        await inbox.go_to(second)
        await inbox.notify(agent)
    seen = await inbox.see(agent)
    assert seen.why == (
        "Has woken 2 times within an hour, its limit; next at 2126-11-21 10:00 UTC; "
        "a run request or an urgent notification wakes it at once."
    )
    assert seen.next_wake is not None
    assert seen.next_wake.at == inbox.at(HOUR)
    assert (await inbox.state(agent)).phase == "held_by_limits"
    assert [type_ for type_, _, _ in await logged(pool, "agent")].count("agent.held_by_limits") == 1

    await jump_to(inbox, HOUR + 60)

    assert [second for second, _ in await inbox.wakes(agent)] == [0, 10, HOUR]
    assert await inbox.queue(agent) == []


async def test_restart_forgets_no_start(inbox: World) -> None:
    agent = await agent_at_its_limit(inbox)

    await inbox.restart()
    await inbox.go_to(60)
    assert len(await inbox.wakes(agent)) == 2
    await jump_to(inbox, HOUR + 60)

    assert len(await inbox.wakes(agent)) == 3


async def test_urgent_notification_and_run_request_pass_and_count(inbox: World) -> None:
    agent = await agent_at_its_limit(inbox)

    await inbox.notify(agent, urgent=True)
    assert await inbox.queue(agent) == []
    assert (await inbox.ask(agent, RunRequest())).status is RunAnswer.STARTED
    await inbox.notify(agent)
    await jump_to(inbox, HOUR + 60)

    # The starts at 0 and 10 s are more than an hour ago, but not those of people at 20 s.
    assert [second for second, _ in await inbox.wakes(agent)] == [0, 10, 20, 20, HOUR + 20]


async def test_urgent_reminder_passes_when_it_falls_due(inbox: World) -> None:
    agent = await agent_at_its_limit(inbox)

    await inbox.notify(agent, urgent=True, scheduled_for=inbox.at(40))
    await inbox.go_to(60)

    assert (await inbox.wakes(agent))[2:] == [(40, "reminder")]


async def test_higher_limit_applies_at_once(inbox: World) -> None:
    agent = await agent_at_its_limit(inbox)

    await inbox.change(agent, max_wakes_per_hour=3)

    assert [second for second, _ in await inbox.wakes(agent)] == [0, 10, 20]


async def test_stop_ends_what_a_limit_holds(inbox: World) -> None:
    agent = await agent_at_its_limit(inbox)

    assert await inbox.ask(agent, StopRequest()) is StopReply.STOPPED
    await jump_to(inbox, HOUR + 60)

    assert len(await inbox.wakes(agent)) == 2


async def test_limit_of_a_day_is_renewed_at_local_midnight(inbox: World) -> None:
    agent = await inbox.agent(max_wakes_per_day=1, timezone="Pacific/Kiritimati")  # it is 23:00 there
    for _ in range(3):
        await inbox.notify(agent)

    await jump_to(inbox, HOUR + 60)

    assert [second for second, _ in await inbox.wakes(agent)] == [0, HOUR]


async def test_quiet_hours_hold_a_retry_and_the_end_of_a_sleep(world: World) -> None:
    agent = await world.agent(quiet_hours="09:01-09:02")
    run = await world.start(agent)
    await world.go_to(59.5)
    await run.fail()

    await world.go_to(130)

    assert await world.wakes(agent) == [(0, "run_requested"), (120, "retry_after_failure")]


async def test_queued_start_waits_when_quiet_hours_begin(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        busy, late = await world.agent(), await world.agent(quiet_hours="09:01-09:02")
        run = await world.start(busy)
        await world.notify(late)
        await world.go_to(70)
        await run.sleeps()
        await world.go_to(75)
        assert (await world.state(late)).phase == "held_by_limits"

        await world.go_to(130)

        assert await world.wakes(late) == [(120, "notification:api")]


async def test_start_that_is_refused_a_slot_does_not_count(pool: Pool) -> None:
    async with open_world(pool, runs={"max_concurrent": 1}) as world:
        busy, limited = await world.agent(), await world.agent(max_wakes_per_hour=1)
        run = await world.start(busy)
        await world.notify(limited)
        await world.go_to(30)
        await run.sleeps()
        await world.wait_until_idle()

        assert await world.wakes(limited) == [(30, "notification:api")]
