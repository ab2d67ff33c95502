"""Documents: texts that agents write and look up, the list of them that agents see, and their versions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Self
from uuid import UUID

from asyncpg import Record

from storage.channels.document_search import DocumentHit, SearchScope, search_documents
from storage.delivery.receipts import insert_once
from storage.model import Receipt
from storage.organization_limits import OrganizationLimits, document_bytes
from storage.postgres.owned_tables import OfAgents, OwnedTable
from storage.postgres.page_conditions import PageConditions, fetch_page, fetch_rows
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import ALWAYS, Period, assign
from storage.postgres.rows import fetch_all, fetch_one, from_row
from storage.postgres.shared_reads import SharedReads

MAX_VERSIONS = 50  # of one document, the current one among them

INSERT = """
INSERT INTO document (
    id, organization_id, agent_id, project_id, title, content, content_type, created_at, updated_at, path,
    author, run_id, language)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        coalesce((SELECT language FROM agent WHERE id = $3), ''))
"""

UPDATE = """
UPDATE document d
SET updated_at = $2, language = coalesce((SELECT a.language FROM agent a WHERE a.id = $3), ''), /* set */
WHERE d.id = $1
RETURNING d.id, d.organization_id, d.agent_id, d.project_id, d.title, d.content, d.content_type, d.created_at,
          d.updated_at, d.path, d.version, d.author, d.run_id, d.deleted_at
"""

# The lock makes `old` the row that the update replaces, whatever was written since the statement began.
WRITE = """
WITH old AS (
    SELECT * FROM document WHERE id = $1 AND version = coalesce($6, version) FOR UPDATE
), kept AS (
    INSERT INTO document_version (
        document_id, number, organization_id, title, content, content_type, author, run_id, created_at)
    SELECT id, version, organization_id, title, content, content_type, author, run_id, updated_at FROM old
), pruned AS (
    DELETE FROM document_version v USING old WHERE v.document_id = old.id AND v.number <= old.version + 1 - $7
)
UPDATE document d
SET updated_at = $2, language = coalesce((SELECT a.language FROM agent a WHERE a.id = $3), ''),
    author = $4, run_id = $5, version = old.version + 1, /* set */
FROM old WHERE d.id = old.id
RETURNING d.id, d.organization_id, d.agent_id, d.project_id, d.title, d.content, d.content_type, d.created_at,
          d.updated_at, d.path, d.version, d.author, d.run_id, d.deleted_at
"""

DELETE = "DELETE FROM document WHERE id = $1 RETURNING id"

WRITTEN = frozenset({"title", "content", "content_type"})  # a change of them makes a new version

TITLES_PAGE = """
SELECT d.* FROM (
    (SELECT d.id, d.project_id, d.title, d.path, octet_length(d.content) AS size_bytes, d.created_at,
            d.updated_at
     FROM document d
     WHERE d.agent_id = $1 AND d.deleted_at IS NULL /* and */
     ORDER BY d.created_at DESC, d.id DESC LIMIT $2::bigint + $3::bigint)
    UNION ALL
    (SELECT d.id, d.project_id, d.title, d.path, octet_length(d.content) AS size_bytes, d.created_at,
            d.updated_at
     FROM document d
     WHERE d.organization_id = (SELECT a.organization_id FROM agent a WHERE a.id = $1)
       AND d.agent_id IS NULL AND d.deleted_at IS NULL /* and */
     ORDER BY d.created_at DESC, d.id DESC LIMIT $2::bigint + $3::bigint)
) d
ORDER BY d.created_at DESC, d.id DESC LIMIT $2 OFFSET $3
"""

# The current version is the document itself. A document has at most MAX_VERSIONS of them.
LIST_VERSIONS = """
SELECT number, title, content_type, octet_length(content) AS size_bytes, author, run_id, created_at
FROM document_version WHERE document_id = $1
UNION ALL
SELECT version, title, content_type, octet_length(content), author, run_id, updated_at
FROM document WHERE id = $1
ORDER BY number DESC
"""

GET_VERSION = """
SELECT number, title, content, content_type, octet_length(content) AS size_bytes, author, run_id, created_at
FROM document_version WHERE document_id = $1 AND number = $2
UNION ALL
SELECT version, title, content, content_type, octet_length(content), author, run_id, updated_at
FROM document WHERE id = $1 AND version = $2
"""


@dataclass(frozen=True, slots=True)
class Writer:
    """The author of a version, `key:…`, `user:…` or `agent:…` with an id, and the run of an agent."""

    author: str
    run_id: UUID | None = None

    @classmethod
    def of_agent(cls, agent_id: UUID, run_id: UUID | None) -> Self:
        return cls(f"agent:{agent_id}", run_id)


@dataclass(frozen=True, slots=True)
class Document:
    """A text; one without an agent belongs to all agents of the organization.

    `author` and `run_id` tell who wrote the current version. A document with `deleted_at` was deleted by an
    agent, and is only found by its id.
    """

    id: UUID
    organization_id: UUID
    agent_id: UUID | None
    project_id: UUID | None
    title: str
    content: str
    content_type: str
    created_at: datetime
    updated_at: datetime
    path: str | None = None
    version: int = 1
    author: str = ""
    run_id: UUID | None = None
    deleted_at: datetime | None = None


TABLE = OwnedTable("document", "d", Document, OfAgents.SOME)


@dataclass(frozen=True, slots=True)
class DocumentFilters:
    """The documents that a list shows: those of organizations, or those that one agent sees.

    Either those that agents have deleted are listed, or the others.
    """

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    project_id: UUID | None = None
    created: Period = ALWAYS
    path: str | None = None
    is_deleted: bool = False
    visible_to: UUID | None = None


@dataclass(frozen=True, slots=True)
class DocumentTitle:
    """A document without its content, which has `size_bytes`."""

    id: UUID
    project_id: UUID | None
    title: str
    path: str | None
    size_bytes: int
    created_at: datetime
    updated_at: datetime


class Documents:
    """The table `document`. A deleted agent's documents are not found."""

    def __init__(self, pool: Pool, limits: OrganizationLimits | None = None) -> None:
        """Keep to `limits`; without them, organizations may store as much as they like."""
        self._pool = pool
        self._limit = (limits or OrganizationLimits(pool)).document_bytes
        self.get = SharedReads(
            "documents", pool, TABLE.get, partial(from_row, Document), texts=("d.content",)
        )

    async def insert(self, document: Document, receipt: Receipt | None = None) -> None:
        """Store the document, in the language of its agent.

        Raise NotUnique for a path that the agent has already, ReferenceMissing for `agent` or `project`,
        AnsweredBefore if the receipt exists already, LimitReached.
        """
        async with self._limit.reserved(document.organization_id, _bytes_of(document)):
            await insert_once(self._pool, receipt, document.organization_id, INSERT, *_row(document))

    async def list_rows(self, filters: DocumentFilters, page: Page) -> Chunk[Record]:
        """List one page of the documents, newest first, as rows with the columns of `Document`."""
        statement, conditions = _listing(filters, page)
        return await fetch_rows(self._pool, Document, statement, conditions)

    async def update(
        self,
        document: Document,
        changes: Mapping[str, Any],
        writer: Writer,
        now: datetime,
        expected_version: int | None = None,
    ) -> Document | None:
        """Set the columns in `changes` and return the document; None if there is no such document.

        A change of what the document says keeps the version before it. With `expected_version` the document
        is changed only if that is still its version; else None is returned. Raise NotUnique for a path that
        the agent has already, ReferenceMissing for `agent` or `project`, LimitReached.
        """
        if not changes:
            return await self.get(document.id)
        agent_id = changes.get("agent_id", document.agent_id)
        given: list[object] = [document.id, now, agent_id]
        if WRITTEN.isdisjoint(changes):
            sql = assign(UPDATE, changes, Document, after=len(given))
            return await fetch_one(self._pool, Document, sql, *given, *changes.values())
        given += writer.author, writer.run_id, expected_version, MAX_VERSIONS
        sql = assign(WRITE, changes, Document, after=len(given))
        async with self._limit.reserved(document.organization_id, _bytes_of(replace(document, **changes))):
            return await fetch_one(self._pool, Document, sql, *given, *changes.values())

    async def list_titles(self, agent_id: UUID, project_id: UUID | None, page: Page) -> Chunk[DocumentTitle]:
        """List one page of what an agent sees, newest first: its documents and those for all agents."""
        conditions = PageConditions(agent_id, page, "d.created_at, d.id")
        conditions.add_optional("d.project_id = $", project_id)
        return await fetch_page(self._pool, DocumentTitle, TITLES_PAGE, conditions)

    async def search(self, scope: SearchScope, query: str, limit: int) -> list[DocumentHit]:
        """Find documents by their words, best first; see `search_documents`."""
        return await search_documents(self._pool, scope, query, limit)

    async def delete(self, document_id: UUID) -> bool:
        """Delete the document with its versions; return False if there is no such document."""
        return await self._pool.fetchval(DELETE, document_id) is not None


def _bytes_of(document: Document) -> int:
    return document_bytes(document.title, document.content)


def _row(document: Document) -> tuple[Any, ...]:
    return (
        document.id,
        document.organization_id,
        document.agent_id,
        document.project_id,
        document.title,
        document.content,
        document.content_type,
        document.created_at,
        document.updated_at,
        document.path,
        document.author,
        document.run_id,
    )


def _listing(filters: DocumentFilters, page: Page) -> tuple[str, PageConditions]:
    """Return the statement that lists the page, with its conditions."""
    statement, conditions = TABLE.listing(filters.organization_ids, filters.visible_to, page)
    conditions.add("d.deleted_at IS NOT NULL" if filters.is_deleted else "d.deleted_at IS NULL")
    conditions.add_optional("d.agent_id = $", filters.agent_id)
    conditions.add_optional("d.project_id = $", filters.project_id)
    conditions.add_period("d.created_at", filters.created)
    conditions.add_optional("d.path = $", filters.path)
    return statement, conditions


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
        return await fetch_all(self._pool, VersionSummary, LIST_VERSIONS, document_id)

    async def get(self, document_id: UUID, number: int) -> DocumentVersion | None:
        return await fetch_one(self._pool, DocumentVersion, GET_VERSION, document_id, number)
