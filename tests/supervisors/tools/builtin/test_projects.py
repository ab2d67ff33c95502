"""The project tool."""

from storage.channels.projects import ProjectStatus
from supervisors.tools.toolkit import PartialResult
from tests.storage.factories import NOW, SECOND
from tests.supervisors.tools.builtin.resources import refusal, stored_project
from tests.supervisors.world import World


async def test_projects_of_agent_and_organization_are_listed(world: World) -> None:
    agent, sibling = await world.agent(), await world.agent()
    move = await stored_project(world, agent, name="Move", description="x" * 1001)
    shared = await stored_project(
        world, agent, agent_id=None, name="Budget", status=ProjectStatus.DONE, created_at=NOW + SECOND
    )
    await stored_project(world, sibling)
    run = await world.start(agent)

    listed = await run.call("list_projects")

    assert listed == [
        {"id": str(shared.id), "name": "Budget", "status": "done", "description": ""},
        {
            "id": str(move.id),
            "name": "Move",
            "status": "active",
            "description": f"{'x' * 1000}… (cut: 1000 of 1001 characters)",
        },
    ]
    assert await run.call("list_projects", status="active") == listed[1:]
    assert await run.call("list_projects", limit=1) == PartialResult(
        listed[:1], f'There are more. To read on, call this again with after="{shared.id}".'
    )
    assert await run.call("list_projects", after=str(shared.id)) == listed[1:]
    error = await refusal(run, "list_projects", status="lost")
    assert error["message"] == "status takes one of active, done, archived."
