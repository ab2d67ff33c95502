"""The backoff: what lengthens and resets it, and the quarantine that it ends in."""

import pytest

from storage.agent_facts import StateUpdate
from storage.errors import DatabaseUnavailable
from storage.model import Agent, Priority, Source
from storage.postgres.pool import Pool
from supervisors.engine.messages import OwnedFieldsRequest, RunRequest
from supervisors.policy.phases import Phase
from tests.supervisors.world import World, open_world

FAILURES = (0, 1, 3, 7, 15)  # the seconds at which five runs start that fail at once
NOTICE = "Quarantined after too many failures in a row"


async def fail_until_quarantined(world: World, agent: Agent) -> None:
    await world.ask(agent, RunRequest())
    begin = (world.clock.now() - world.began_at).total_seconds()
    for second in FAILURES:
        await world.go_to(begin + second)
        await world.puppets[agent.id].fail()
    assert await world.phase(agent) is Phase.QUARANTINED


async def titles(world: World, agent: Agent) -> list[str]:
    return [notification.title for notification in await world.queue(agent)]


async def test_quarantine_puts_one_low_notice_into_the_agents_queue(world: World) -> None:
    agent = await world.agent()
    await fail_until_quarantined(world, agent)

    [notice] = await world.queue(agent)
    assert (notice.title, notice.source, notice.priority) == (NOTICE, Source.SYSTEM, Priority.LOW)
    assert notice.created_at == world.at(15)
    assert "until 2126-11-21 09:15:15 UTC after 5 failures in a row" in notice.body
    assert "The model is away." in notice.body
    assert (await world.see(agent)).blockers == ()

    await world.ask(agent, RunRequest())
    await world.puppets[agent.id].fail()  # the sixth in a row: a longer quarantine, but not a new one
    await world.restart()
    assert await titles(world, agent) == [NOTICE]
    assert len(await world.wakes(agent)) == 6


async def test_runs_that_clear_nothing_end_in_quarantine(world: World) -> None:
    agent = await world.agent()
    message = await world.notify(agent)
    for second in FAILURES:
        await world.go_to(second)
        await world.puppets[agent.id].end()

    seen = await world.see(agent)
    assert seen.phase is Phase.QUARANTINED
    left = "its run ended without an error, but left 1 high-priority notification uncleared."
    assert seen.why.startswith(
        f"Quarantined until 2126-11-21 09:15:15 UTC after 5 failures in a row, the last one: {left}"
    )
    assert seen.failures.consecutive == 5
    assert await titles(world, agent) == ["Look here", NOTICE]
    await world.restart()
    assert await world.phase(agent) is Phase.QUARANTINED

    await world.clear(message)  # by a person: nothing is left to try again
    assert await world.phase(agent) is Phase.ASLEEP
    await world.notify(agent)
    await world.puppets[agent.id].end()
    assert (await world.see(agent)).failures.consecutive == 1


async def test_each_quarantine_has_its_own_notice(world: World) -> None:
    agent = await world.agent()
    await fail_until_quarantined(world, agent)
    await (await world.start(agent)).sleeps()
    await fail_until_quarantined(world, agent)

    assert await titles(world, agent) == [NOTICE, NOTICE]


async def test_failed_update_stores_no_quarantine_notice(world: World) -> None:
    agent = await world.agent()
    await world.ask(agent, RunRequest())
    for second in FAILURES:
        await world.go_to(second)
        if second == FAILURES[-1]:
            world.states.before_next_update = is_away
        await world.puppets[agent.id].fail()
    assert await titles(world, agent) == []

    await world.restart()

    assert await world.phase(agent) is Phase.QUARANTINED
    assert await titles(world, agent) == [NOTICE]


async def is_away(_: StateUpdate) -> None:
    raise DatabaseUnavailable("away")


async def test_clearing_between_runs_resets_the_backoff(world: World) -> None:
    agent = await world.agent()
    await world.pause(agent.organization_id, True)
    first, _ = [await world.notify(agent) for _ in range(2)]
    await world.pause(agent.organization_id, False)
    for second in (0, 1, 3):
        await world.go_to(second)
        await world.puppets[agent.id].end()
    await world.go_to(4)
    await world.clear(first)
    for second in (7, 8, 10):
        await world.go_to(second)
        await world.puppets[agent.id].end()

    assert [second for second, _ in await world.wakes(agent)] == [0, 1, 3, 7, 8, 10]


async def test_failed_run_that_cleared_something_is_retried_soon(world: World) -> None:
    agent = await world.agent()
    await world.pause(agent.organization_id, True)
    messages = [await world.notify(agent) for _ in range(2)]
    await world.pause(agent.organization_id, False)
    for second in (0, 1, 3):
        await world.go_to(second)
        await world.puppets[agent.id].fail()
    await world.go_to(7)
    run = world.puppets[agent.id]
    await run.clears(messages[0])
    await run.fail()
    await world.go_to(8)

    assert [second for second, _ in await world.wakes(agent)] == [0, 1, 3, 7, 8]
    assert (await world.see(agent)).failures.consecutive == 4  # still no success


@pytest.mark.parametrize("ending", ["ended", "failed"])
async def test_elapsed_sleep_does_not_shorten_a_backoff(pool: Pool, ending: str) -> None:
    """Check that `max_sleep_hours: 0` does not shorten every backoff to a second."""
    async with open_world(pool) as world:
        agent = await world.agent(max_sleep_hours=0)
        await world.notify(agent)
        for second in (0, 1, 3, 7):
            await world.go_to(second)
            run = world.puppets[agent.id]
            await (run.end() if ending == "ended" else run.fail())
            assert (await world.agent_now(agent.id)).sleep_until == world.at(second)

        assert await world.phase(agent) is Phase.BACKING_OFF
        await world.ask(agent, OwnedFieldsRequest(sleep_until=world.at(8)))
        await world.go_to(14.9)
        assert [second for second, _ in await world.wakes(agent)] == [0, 1, 3, 7]
