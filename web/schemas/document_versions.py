"""Versions of documents: responses."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from storage.channels.document_versions import DocumentVersion, VersionSummary


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


def serialize_version(version: VersionSummary) -> VersionResponse:
    return {
        "number": version.number,
        "title": version.title,
        "content_type": version.content_type,
        "size_bytes": version.size_bytes,
        "author": version.author,
        "run": version.run_id,
        "created_at": version.created_at,
    }


def serialize_full_version(version: DocumentVersion) -> FullVersionResponse:
    return {**serialize_version(version), "content": version.content}
