"""Documents: request bodies, queries and responses."""

from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from marshmallow import ValidationError

from storage.channels.document_search import MAX_HITS, DocumentHit
from storage.channels.documents import Document
from storage.channels.memory_paths import MAX_PATH_CHARACTERS, ROOT, InvalidPath, normalized
from web.fields import Boolean, Integer, Line, Text, Uuid
from web.paging import CreatedPageQuery
from web.request.parsing import Body
from web.serializers import Serializer

DEFAULT_HITS = 10


class MemoryPath(Text):
    """The path of a document as its agent's tool `memory` sees it, without a closing slash or `..`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=MAX_PATH_CHARACTERS, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if len(text) > MAX_PATH_CHARACTERS:
            return text  # refused by its length
        try:
            path = normalized(text)
        except InvalidPath as error:
            raise ValidationError(f"{error}.") from error
        if path == ROOT:
            raise ValidationError(f"{ROOT} is a directory: give the path of a file in it.")
        return path


class DocumentBody(Body):
    """The writable fields of a document."""

    agent_id = Uuid(data_key="agent", allow_none=True, load_default=None)
    project_id = Uuid(data_key="project", allow_none=True, load_default=None)
    title = Line(required=True, blank=False, max_length=255)
    content = Text(load_default="")
    content_type = Line(blank=False, max_length=255, load_default="text/plain")
    path = MemoryPath(allow_none=True, load_default=None)


class DocumentQuery(CreatedPageQuery):
    agent = Uuid(load_default=None)
    """Only documents of this agent; those for all agents of the organization are left out."""
    project = Uuid(load_default=None)
    """Only documents of this project."""
    path = MemoryPath(load_default=None)
    """Only the documents of agents at this path."""
    deleted = Boolean(load_default=False)
    """true: only documents that agents have deleted; they can be restored until their retention is over."""


class DocumentSearchQuery(Body):
    query = Text(load_default="")
    """The words to look for, as in a web search: `"quoted words"` stand together, `or` and `-` work. Without
    words nothing is found."""
    agent = Uuid(load_default=None)
    """Only what this agent finds: its own documents and those for all agents. Its language is used."""
    limit = Integer(min_value=1, max_value=MAX_HITS, load_default=DEFAULT_HITS)
    """The maximum number of documents."""


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
    """The text; "" for an empty document. Title and content of each version count against
    `limits.document_bytes`."""
    content_type: str
    """The media type of the content, which the service only stores."""
    created_at: datetime
    """When the document was created."""
    updated_at: datetime
    """When the document was last changed; at first the same as `created_at`."""
    path: str | None
    """Where the agent's tool `memory` finds the document, such as `/memories/people/ada.md`; null: nowhere.
    It needs an `agent`, which may have one document at each path."""
    version: int
    """The number of the current version: a change of title, content or content type adds 1."""
    author: str
    """Who wrote the current version: `user:`, `key:` or `agent:` and the id; "" if it is not known."""
    run: UUID | None
    """The run in which the agent wrote the current version; null if no run did."""
    deleted_at: datetime | None
    """When the agent deleted the document; null if it did not. Reverting it to a version restores it."""


serialize_document = Serializer(DocumentResponse, Document)


class DocumentHitResponse(TypedDict):
    """A document that a search has found, without its content."""

    id: UUID
    """The id of the document."""
    agent: UUID | None
    """The agent that the document is for; null: all agents of the organization."""
    project: UUID | None
    """The project that the document belongs to; null if there is none or it was deleted."""
    title: str
    """The title of the document."""
    path: str | None
    """Where the agent's tool `memory` finds the document; null: nowhere."""
    content_type: str
    """The media type of the content."""
    size_bytes: int
    """The length of the content in UTF-8."""
    version: int
    """The number of the current version."""
    created_at: datetime
    """When the document was created."""
    updated_at: datetime
    """When the document was last changed."""
    rank: float
    """How well the document fits the query, to compare with the others; words of the title count more."""
    snippet: str
    """The places of the content where the words are, which are marked by `**`."""


serialize_hit = Serializer(DocumentHitResponse, DocumentHit)
