"""Extreme input: clock steps, huge numbers, and contradictory settings."""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from supervisors.engine.messages import OwnedFieldsRequest
from supervisors.policy.phases import Phase
from supervisors.tools.arguments import ToolError
from tests.storage.factories import NOW
from tests.supervisors.world import World

HOUR = 3600
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC)
LONGEST_WINDOW = 2**31 - 1


async def test_clock_set_forward_fires_what_became_due(world: World) -> None:
    reminded, sleeper = await world.agent(), await world.agent(sleep_until=world.at(2000))
    await world.remind(reminded, 1000)
    later = await world.agent(sleep_until=world.at(2 * HOUR))
    world.clock.step(HOUR)
    await world.scan.run_once()
    await world.wait_until_idle()

    for agent, reason in ((reminded, "reminder"), (sleeper, "sleep_elapsed")):
        assert await world.wakes(agent) == [(HOUR, reason)]
    assert await world.wakes(later) == []
    await world.go_to(2 * HOUR)
    assert await world.wakes(later) == [(2 * HOUR, "sleep_elapsed")]


async def test_clock_set_back_makes_no_reminder_early(world: World) -> None:
    """Check I5 and I6."""
    reminded, sleeper, held = (
        await world.agent(),
        await world.agent(sleep_until=world.at(110)),
        await world.agent(debounce_window_seconds=60),
    )
    await world.remind(reminded, 100)
    await world.sms(held)
    await world.go_to(30)
    world.clock.step(-HOUR)

    await world.advance(30 + 59.9)
    assert world.puppets == {}
    await world.advance(0.1)
    assert set(world.puppets) == {held.id}
    await world.go_to(200)
    assert await world.wakes(reminded) == [(100, "reminder")]
    assert await world.wakes(sleeper) == [(110, "sleep_elapsed")]


async def test_due_agent_that_may_not_start_causes_no_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, microseconds = await world.agent(), count()
    run = await world.start(agent)
    await world.go_to(10)
    await world.notify(agent)
    world.clock.step(-HOUR)
    held_now = world.clock.now
    monkeypatch.setattr(world.clock, "now", lambda: held_now() + timedelta(microseconds=next(microseconds)))
    world.registry.allow_starts(False)

    await run.end()  # waits until the world is quiet

    assert await world.phase(agent) is Phase.ASLEEP
    world.registry.allow_starts(True)
    await world.scan.run_once()
    await world.wait_until_idle()
    assert set(world.puppets) == {agent.id}


async def test_reminder_at_the_last_possible_time_waits(world: World) -> None:
    agent = await world.agent()
    await world.notify(agent, scheduled_for=END_OF_TIME)
    await world.restart()
    await world.go_to(86_400)

    seen = await world.see(agent)
    assert seen.next_wake is not None
    assert (seen.phase, seen.next_wake.at, await world.wakes(agent)) == (Phase.ASLEEP, END_OF_TIME, [])
    await world.ask(agent, OwnedFieldsRequest(sleep_until=END_OF_TIME))
    assert await world.phase(agent) is Phase.ASLEEP
    run = await world.start(agent)
    with pytest.raises(ToolError, match="until takes"):
        await run.call("sleep", until=END_OF_TIME.isoformat())
    await run.sleeps(hours=87_600)
    next_wake = (await world.see(agent)).next_wake
    assert next_wake is not None
    assert next_wake.at.year == NOW.year + 10


async def test_longest_window_holds_until_it_is_shortened(world: World) -> None:
    agent = await world.agent(debounce_window_seconds=LONGEST_WINDOW)
    await world.sms(agent)
    await world.go_to(86_400)
    await world.sms(agent)
    await world.restart()

    seen = await world.see(agent)
    assert seen.phase is Phase.HOLDING
    assert seen.debounce is not None
    assert seen.debounce.due_at == world.at(86_400 + LONGEST_WINDOW)
    await world.change(agent, debounce_window_seconds=0)
    assert await world.wakes(agent) == [(86_400, "notification:sms")]


async def test_template_deleted_during_hold_leaves_its_window(world: World) -> None:
    shared = await world.template(debounce_window_seconds=60)
    agent = await world.agent(template_id=shared.id)
    await world.sms(agent)
    await world.go_to(20)
    await world.storage.templates.delete_detaching(shared.id, world.clock.now())
    await world.go_to(300)

    assert await world.wakes(agent) == [(60, "notification:sms")]
