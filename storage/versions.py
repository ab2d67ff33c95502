"""Versions of texts: of the contents of documents, and of the system prompts of agents and templates.

A statement that changes a text keeps what it replaces as an earlier version. The current version is a part of
the document, agent or template that owns it.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.postgres.pool import Pool
from storage.postgres.query import fill_in
from storage.postgres.statement import fetch_all, fetch_one

MAX_VERSIONS = 50  # of one text, the current one among them; the trigger `prompt_keep` keeps as many

# An id belongs to one document, agent or template, so all but one of the parts are empty.
VERSIONS = """
    SELECT number, title, content, content_type, author, run_id, created_at
    FROM document_version WHERE document_id = $1
    UNION ALL
    SELECT version, title, content, content_type, author, run_id, updated_at
    FROM document WHERE id = $1
    UNION ALL
    SELECT number, '', text, 'text/plain', author,
           substring(author FROM '^run:([0-9a-f-]{36})$')::uuid, created_at
    FROM prompt WHERE owner_id = $1
"""

LIST = fill_in(
    """
    SELECT number, title, content_type, octet_length(content) AS size_bytes, author, run_id, created_at
    FROM (/* versions */) AS version ORDER BY number DESC
    """,
    "/* versions */",
    VERSIONS,
)

GET = fill_in(
    """
    SELECT *, octet_length(content) AS size_bytes FROM (/* versions */) AS version WHERE number = $2
    """,
    "/* versions */",
    VERSIONS,
)


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """A version without its content; `author` and `run_id` tell who wrote it. A prompt has no title."""

    number: int
    title: str
    content_type: str
    size_bytes: int
    author: str
    run_id: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Version(VersionSummary):
    """A version with its content."""

    content: str


class Versions:
    """The tables `document_version` and `prompt_version`, together with the current versions."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_all(self, owner_id: UUID) -> list[VersionSummary]:
        """List the versions of a document, or of an agent's or a template's prompt, the current one first."""
        return await fetch_all(self._pool, VersionSummary, LIST, owner_id)

    async def get(self, owner_id: UUID, number: int) -> Version | None:
        return await fetch_one(self._pool, Version, GET, owner_id, number)
