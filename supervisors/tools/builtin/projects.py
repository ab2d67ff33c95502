"""The project tool: an agent looks up what it works on over a longer time."""

from functools import partial
from typing import Any

from storage.channels.projects import Project, ProjectFilters, ProjectStatus
from supervisors.text import cut
from supervisors.tools.builtin.pages import AFTER, LIMIT, by_creation, named_cursor, read_page
from supervisors.tools.toolkit import PartialResult, ToolDefinition, ToolInvocation, schema

MAX_LISTED_CHARACTERS = 1000  # of a description

LIST_PROJECTS = ToolDefinition(
    name="list_projects",
    description="Lists your projects, newest first.",
    parameters=schema(status={"type": "string", "enum": list(ProjectStatus)}, limit=LIMIT, after=AFTER),
)


async def list_projects(call: ToolInvocation) -> list[dict[str, Any]] | PartialResult:
    """List the projects that the agent reaches, newest first."""
    projects, agent = call.stores.projects, call.agent
    status = call.arguments.optional_choice("status", ProjectStatus)
    filters = ProjectFilters((agent.organization_id,), status=status, visible_to=agent.id)
    after = await named_cursor(call, "after", "project", projects.get, by_creation)
    page = await read_page(call, partial(projects.list_page, filters), _serialize, after)
    return page.result()


def _serialize(project: Project) -> dict[str, Any]:
    return {
        "id": str(project.id),
        "name": project.name,
        "status": project.status,
        "description": cut(project.description, MAX_LISTED_CHARACTERS),
    }
