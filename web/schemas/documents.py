"""Documents: request bodies, queries and responses."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.channels.documents import Document
from web.fields import Line, Text, Uuid
from web.paging import CreatedPageQuery
from web.request.parsing import Body


class DocumentBody(Body):
    """Without an agent it is for all agents of the organization."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    project_id = Uuid(data_key="project", allow_none=True, load_default=None)
    title = Line(required=True, blank=False, max_length=255)
    content = Text(load_default="")
    content_type = Line(blank=False, max_length=255, load_default="text/plain")


class DocumentQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    project = Uuid(load_default=None)


class DocumentResponse(TypedDict):
    id: UUID
    agent: UUID | None
    project: UUID | None
    title: str
    content: str
    content_type: str
    created_at: datetime
    updated_at: datetime


def serialize_document(document: Document) -> DocumentResponse:
    return {
        "id": document.id,
        "agent": document.agent_id,
        "project": document.project_id,
        "title": document.title,
        "content": document.content,
        "content_type": document.content_type,
        "created_at": document.created_at,
        "updated_at": document.updated_at,
    }
