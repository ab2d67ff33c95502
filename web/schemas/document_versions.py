"""Versions of documents: responses."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.channels.document_versions import DocumentVersion, VersionSummary
from web.serializers import Serializer


class VersionResponse(TypedDict):
    """A version of a document, without its content."""

    number: int
    """1 for the first version of the document."""
    title: str
    """The title in this version."""
    content_type: str
    """The media type in this version."""
    size_bytes: int
    """The length of the content in UTF-8."""
    author: str
    """Who wrote this version: `user:`, `key:` or `agent:` and the id; "" if it is not known."""
    run: UUID | None
    """The run in which the agent wrote this version; null if no run did."""
    created_at: datetime
    """When this version was written."""


class FullVersionResponse(VersionResponse):
    """A version of a document with its content."""

    content: str
    """The text of this version."""


serialize_version = Serializer(VersionResponse, VersionSummary)


serialize_full_version = Serializer(FullVersionResponse, DocumentVersion)
