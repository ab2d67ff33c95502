"""Projects: request bodies, queries and responses."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.channels.projects import Project, ProjectStatus
from web.fields import Choice, Line, Text, Uuid
from web.paging import CreatedPageQuery
from web.request.parsing import Body


class ProjectBody(Body):
    """Without an agent it is for all agents of the organization."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    name = Line(required=True, blank=False, max_length=255)
    description = Text(load_default="")
    status = Choice(ProjectStatus, load_default=ProjectStatus.ACTIVE)


class ProjectQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    status = Choice(ProjectStatus, load_default=None)


class ProjectResponse(TypedDict):
    id: UUID
    agent: UUID | None
    name: str
    description: str
    status: ProjectStatus
    created_at: datetime
    updated_at: datetime


def serialize_project(project: Project) -> ProjectResponse:
    return {
        "id": project.id,
        "agent": project.agent_id,
        "name": project.name,
        "description": project.description,
        "status": project.status,
        "created_at": project.created_at,
        "updated_at": project.updated_at,
    }
