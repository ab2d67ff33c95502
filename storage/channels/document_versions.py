"""Versions of documents: what each one said before it was changed, who wrote that, and when."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.postgres.pool import Pool
from storage.postgres.rows import fetch_all, fetch_one

# The current version is the document itself. A document has at most MAX_VERSIONS of them.
LIST = """
SELECT number, title, content_type, octet_length(content) AS size_bytes, author, run_id, created_at
FROM document_version WHERE document_id = $1
UNION ALL
SELECT version, title, content_type, octet_length(content), author, run_id, updated_at
FROM document WHERE id = $1
ORDER BY number DESC
"""

GET = """
SELECT number, title, content, content_type, octet_length(content) AS size_bytes, author, run_id, created_at
FROM document_version WHERE document_id = $1 AND number = $2
UNION ALL
SELECT version, title, content, content_type, octet_length(content), author, run_id, updated_at
FROM document WHERE id = $1 AND version = $2
"""


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """A version without its content; `author` and `run_id` tell who wrote it."""

    number: int
    title: str
    content_type: str
    size_bytes: int
    author: str
    run_id: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DocumentVersion(VersionSummary):
    """A version with its content."""

    content: str


class DocumentVersions:
    """The table `document_version`, to which `Documents` adds, together with the current versions."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_all(self, document_id: UUID) -> list[VersionSummary]:
        """List the versions of a document, the current one first, without their contents."""
        return await fetch_all(self._pool, VersionSummary, LIST, document_id)

    async def get(self, document_id: UUID, number: int) -> DocumentVersion | None:
        return await fetch_one(self._pool, DocumentVersion, GET, document_id, number)
