"""The backoff: what lengthens and resets it, and the quarantine that it ends in."""

from storage.agent_facts import StateUpdate
from storage.errors import DatabaseUnavailable
from storage.model import Agent, Priority, Source
from supervisors.engine.messages import RunRequest
from supervisors.policy.phases import Phase
from tests.supervisors.world import World

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
