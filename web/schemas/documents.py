"""Documents: request bodies, queries and responses."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.channels.documents import Document
from web.fields import Line, Text, Uuid
from web.paging import CreatedPageQuery
from web.request.parsing import Body


class DocumentBody(Body):
    """The writable fields of a document."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    project_id = Uuid(data_key="project", allow_none=True, load_default=None)
    title = Line(required=True, blank=False, max_length=255)
    content = Text(load_default="")
    content_type = Line(blank=False, max_length=255, load_default="text/plain")


class DocumentQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    """Only documents of this agent; those for all agents of the organization are left out."""
    project = Uuid(load_default=None)
    """Only documents of this project."""


class DocumentResponse(TypedDict):
    """A text that agents keep or are given."""

    id: UUID
    """Chosen by the service."""
    agent: UUID | None
    """The agent that the document is for; null: all agents of the organization."""
    project: UUID | None
    """The project that the document belongs to; null if there is none or it was deleted."""
    title: str
    """One line; several documents may have the same."""
    content: str
    """The text; "" for an empty document. Title and content count against `limits.document_bytes`."""
    content_type: str
    """The media type of the content, which the service only stores."""
    created_at: datetime
    """When the document was created."""
    updated_at: datetime
    """When the document was last changed; at first the same as `created_at`."""


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
