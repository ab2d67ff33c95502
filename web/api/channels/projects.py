"""Projects: the longer tasks that agents work on."""

from datetime import datetime
from functools import partial
from typing import TypedDict
from uuid import UUID

from aiohttp import web

from storage.channels.projects import Project, ProjectFilters, ProjectStatus
from storage.ids import new_id
from web.access.auth import Caller, RunAccess
from web.access.path_access import delete_owned, load_of_agent, load_owned, require_agent
from web.access.references import organization_for_new, require_same_owner
from web.app_keys import CLOCK, STORAGE
from web.errors import refusing_constraint_errors, require_found
from web.fields import Choice, Line, Text, Uuid
from web.idempotency import read_body_once, receipt_of
from web.json import Serializer
from web.paging import CreatedPageQuery, answer_owned, period
from web.request.parsing import Body, read_body, read_query
from web.routes import Routes


class ProjectBody(Body):
    """The writable fields of a project."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="")
    status = Choice(ProjectStatus, load_default=ProjectStatus.ACTIVE)


class ProjectQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    """Only projects of this agent; those for all agents of the organization are left out."""
    status = Choice(ProjectStatus, load_default=None)
    """Only projects with this status."""


class ProjectResponse(TypedDict):
    """A piece of work, by which documents can be grouped."""

    id: UUID
    """Chosen by the service."""
    agent: UUID | None
    """The agent that the project is for; null: all agents of the organization."""
    name: str
    """One line; several projects may have the same."""
    description: str
    """Any text; "" if there is none."""
    status: ProjectStatus
    """The progress of the work. It has no effect on agents."""
    created_at: datetime
    """When the project was created."""
    updated_at: datetime
    """When the project was last changed; at first the same as `created_at`."""


serialize_project = Serializer(ProjectResponse, Project)

routes = Routes()


@routes.create("/api/defaults/projects/", body=ProjectBody, by_header=True)
async def create_project(request: web.Request, caller: Caller) -> ProjectResponse:
    """Create a project, for one agent or for all agents of the organization."""
    body = await read_body_once(request, caller)
    organization_id, now = await organization_for_new(request, caller, body), request.app[CLOCK].now()
    project = Project(id=new_id(), organization_id=organization_id, created_at=now, updated_at=now, **body)
    answer = serialize_project(project)
    with refusing_constraint_errors(body):
        await request.app[STORAGE].projects.insert(project, receipt_of(request, answer))
    return answer


@routes.get(
    "/api/defaults/projects/", answer=list[ProjectResponse], query=ProjectQuery, run_access=RunAccess.RUNNING
)
async def list_projects(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List the projects of your organizations, newest first.

    A run lists those of its agent and those for all agents.
    """
    query, reach = read_query(request), caller.reach
    await require_agent(request, caller, query["agent"])
    projects = request.app[STORAGE].projects
    filters = ProjectFilters(
        reach.organization_ids,
        query["agent"],
        query["status"],
        period(query, "created"),
        visible_to=reach.agent_id,
    )
    fetch = partial(projects.list_page, filters)
    owners = reach.organization_ids
    return await answer_owned(request, query, owners, projects.get, fetch, serialize_project)


@routes.get("/api/defaults/projects/{id}/", run_access=RunAccess.RUNNING)
async def get_project(request: web.Request, caller: Caller) -> ProjectResponse:
    """Read one project."""
    project = await load_of_agent(request, caller, request.app[STORAGE].projects.get)
    return serialize_project(project)


@routes.patch("/api/defaults/projects/{id}/", body=ProjectBody)
async def change_project(request: web.Request, caller: Caller) -> ProjectResponse:
    """Change the fields that the body contains; the others stay as they are."""
    projects = request.app[STORAGE].projects
    project = await load_owned(request, caller, projects.get)
    changes = await read_body(request)
    await require_same_owner(request, caller, project, changes)
    with refusing_constraint_errors(changes):
        changed = await projects.update(project.id, changes, request.app[CLOCK].now())
    return serialize_project(require_found(changed))


@routes.delete("/api/defaults/projects/{id}/")
async def delete_project(request: web.Request, caller: Caller) -> None:
    """Delete a project. Its documents stay, with null as their `project`."""
    await delete_owned(request, caller, request.app[STORAGE].projects)
