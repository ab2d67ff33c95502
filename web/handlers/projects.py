"""What agents work on over a longer time."""

from uuid import UUID

from aiohttp import web

from storage.channels.projects import Project, ProjectFilters
from storage.errors import ReferenceMissing
from storage.ids import new_id
from web.access.auth import Caller
from web.access.body_references import owner_of_new, require_owner
from web.access.path_access import path_id, require_agent
from web.app_keys import CLOCK, STORAGE
from web.constraint_errors import refusal
from web.errors import NotFound
from web.json import json_response
from web.paging import Listing, answer_list
from web.request.parsing import read_body, read_query
from web.routes import for_callers
from web.schemas.projects import ProjectBody, ProjectQuery, ProjectResponse, serialize_project

BODY = ProjectBody()
QUERY = ProjectQuery()


async def create_project(request: web.Request, caller: Caller) -> web.Response:
    body = await read_body(request, BODY)
    organization_id, now = await owner_of_new(request, caller, body), request.app[CLOCK].now()
    project = Project(id=new_id(), organization_id=organization_id, created_at=now, updated_at=now, **body)
    try:
        await request.app[STORAGE].projects.insert(project)
    except ReferenceMissing as error:
        raise refusal(error, body) from error
    return json_response(serialize_project(project), status=201)


async def list_projects(request: web.Request, caller: Caller) -> web.StreamResponse:
    query = read_query(request, QUERY)
    await require_agent(request, caller, query["agent"])
    projects = request.app[STORAGE].projects
    filters = ProjectFilters(caller.organizations, query["agent"], query["status"])

    async def find(project_id: UUID) -> Project | None:
        last = await projects.get(project_id)
        return last if last and last.organization_id in caller.roles else None

    listing = Listing(
        fetch=lambda page: projects.page(filters, page),
        find=find,
        cursor=lambda last: (last.created_at, last.id),
        show=serialize_project,
    )
    return await answer_list(request, query, listing)


async def get_project(request: web.Request, caller: Caller) -> web.Response:
    return json_response(serialize_project(await _project(request, caller)))


async def change_project(request: web.Request, caller: Caller) -> web.Response:
    project = await _project(request, caller)
    changes = await read_body(request, BODY, partial=True)
    await require_owner(request, project.organization_id, changes)
    projects = request.app[STORAGE].projects
    try:
        changed = await projects.update(project.id, changes, request.app[CLOCK].now())
    except ReferenceMissing as error:
        raise refusal(error, changes) from error
    if changed is None:
        raise NotFound
    return json_response(serialize_project(changed))


async def delete_project(request: web.Request, caller: Caller) -> web.Response:
    project = await _project(request, caller)
    await request.app[STORAGE].projects.delete(project.id)
    return web.Response(status=204)


async def _project(request: web.Request, caller: Caller) -> Project:
    project = await request.app[STORAGE].projects.get(path_id(request))
    if project is None:
        raise NotFound
    caller.require(project.organization_id)
    return project


ROUTES = (
    for_callers(
        "GET",
        "/api/defaults/projects/",
        list_projects,
        "List projects",
        answer=list[ProjectResponse],
        query=QUERY,
    ),
    for_callers(
        "POST",
        "/api/defaults/projects/",
        create_project,
        "Create a project",
        status=201,
        answer=ProjectResponse,
        body=BODY,
        by_header=True,
    ),
    for_callers("GET", "/api/defaults/projects/{id}/", get_project, "Read a project", answer=ProjectResponse),
    for_callers(
        "PATCH",
        "/api/defaults/projects/{id}/",
        change_project,
        "Change a project",
        answer=ProjectResponse,
        body=BODY,
        partial=True,
    ),
    for_callers("DELETE", "/api/defaults/projects/{id}/", delete_project, "Delete a project", status=204),
)
