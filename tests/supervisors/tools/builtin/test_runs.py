"""Run tools: sleep, the list of runs, and the agent's clock."""

from datetime import datetime
from typing import Any

import pytest

from supervisors.tools.arguments import ToolError
from supervisors.tools.tool import PartialResult
from tests.supervisors.tools.builtin.resources import refusal
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


async def test_sleep_of_a_run_that_is_over_is_refused(world: World) -> None:
    agent = await world.agent()
    run = await world.start(agent)
    await run.end()

    with pytest.raises(ToolError) as refused:
        await run.call("sleep")

    assert refused.value.code == "not_running"


async def test_agent_lists_only_its_own_runs(world: World) -> None:
    agent, sibling = await world.agent(timezone="Asia/Tokyo"), await world.agent()
    first = await world.start(agent)
    await first.end()
    await world.advance(60)
    second = await world.start(agent)
    foreign = await world.start(sibling)

    listed = await second.call("list_runs")

    assert [run["id"] for run in listed] == [str(second.run.id), str(first.run.id)]
    assert datetime.fromisoformat(listed[1].pop("started_at")) <= first.run.started_at
    assert listed[1].pop("ended_at").endswith("+09:00")
    assert listed[1] == {
        "id": str(first.run.id),
        "wake_reason": "run_requested",
        "notifications": 0,
        "turns": 0,
        "outcome": "ended",
        "error": "",
        "output": "",
    }
    assert (listed[0]["outcome"], listed[0]["ended_at"]) == (None, None)
    assert await second.call("list_runs", limit=1) == PartialResult(
        listed[:1], f'There are more. To read on, call this again with after="{second.run.id}".'
    )
    [earlier] = await second.call("list_runs", after=str(second.run.id))
    assert earlier["id"] == str(first.run.id)
    error = await refusal(second, "list_runs", after=str(foreign.run.id))
    assert error["message"] == f"You have no run {foreign.run.id}."


async def test_time_is_that_of_the_agents_zone(world: World) -> None:
    run = await world.start(await world.agent(timezone="Pacific/Auckland"))

    told = await run.call("get_time")

    assert datetime.fromisoformat(told["time"]) == world.clock.now().replace(microsecond=0)
    assert told["time"][-6:] in {"+13:00", "+12:00"}
    local = datetime.fromisoformat(told["time"])
    assert (told["weekday"], told["timezone"]) == (f"{local:%A}", "Pacific/Auckland")
