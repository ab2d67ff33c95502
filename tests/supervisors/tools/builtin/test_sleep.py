"""The sleep tool: its arguments and its refusals."""

from typing import Any

import pytest

from supervisors.tools.errors import ToolError
from tests.supervisors.world import World

SLEEPS: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"until": None, "hours": None}, None),
    ({"hours": 0.5}, "2126-11-21T09:30:00.000000Z"),
    ({"hours": " 0.5 "}, "2126-11-21T09:30:00.000000Z"),
    ({"until": " 2126-11-21t12:00:00z"}, "2126-11-21T12:00:00.000000Z"),
    ({"hours": 87_600}, "2136-11-18T09:00:00.000000Z"),
    ({"until": "2126-11-21T12:00:00Z"}, "2126-11-21T12:00:00.000000Z"),
    ({"until": "2126-11-21T07:00:00-05:00"}, "2126-11-21T12:00:00.000000Z"),
    ({"until": "2126-11-21T12:00:00"}, "2126-11-21T11:00:00.000000Z"),
]


async def test_sleep_takes_a_time_or_hours_or_neither(world: World) -> None:
    for arguments, sleep_until in SLEEPS:
        run = await world.start(await world.agent(timezone="Europe/Berlin"))

        assert await run.sleeps(**arguments) == {"sleep_until": sleep_until, "clamped": False}


async def test_refused_sleep_lists_the_blocking_notifications(world: World) -> None:
    """Invariant I4."""
    agent = await world.agent()
    run = await world.start(agent)
    blockers = [await world.notify(agent), await world.notify(agent)]

    with pytest.raises(ToolError) as refused:
        await run.call("sleep")

    assert refused.value.code == "uncleared_high_priority"
    assert refused.value.details == {"notifications": [str(blocker.id) for blocker in blockers]}


async def test_sleep_outside_a_run_is_refused(world: World) -> None:
    agent = await world.agent()

    with pytest.raises(ToolError) as refused:
        await world.toolbox.use(await world.toolbox.find(agent, "sleep"), agent, None, world.registry.ask, {})

    assert refused.value.code == "not_running"


async def test_sleep_of_a_run_that_is_over_is_refused(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await run.end()

    with pytest.raises(ToolError) as refused:
        await run.call("sleep")

    assert refused.value.code == "not_running"
