"""The run tool."""

from datetime import datetime

from supervisors.tools.toolkit import PartialResult
from tests.supervisors.tools.builtin.resources import refusal
from tests.supervisors.world import World


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
