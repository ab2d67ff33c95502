"""Projects: request bodies, queries and responses."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.channels.projects import Project, ProjectStatus
from web.fields import Choice, Line, Text, Uuid
from web.paging import CreatedPageQuery
from web.request.parsing import Body
from web.serializers import Serializer


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
