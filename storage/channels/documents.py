"""Documents: texts that agents write and look up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_once
from storage.model import Receipt
from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import ALWAYS, Period, assign
from storage.postgres.rows import fetch_one, to_row

INSERT = """
INSERT INTO document (
    id, organization_id, agent_id, project_id, title, content, content_type, created_at, updated_at,
    path)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""

GET = """
SELECT d.* FROM document d LEFT JOIN agent a ON a.id = d.agent_id WHERE d.id = $1 AND a.deleted_at IS NULL
"""

# Read a page of each organization along its index, then take the newest of all. The agent is checked by a
# subquery: for a join the planner expects few rows, and would sort all documents for each page.
PAGE = """
SELECT d.* FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT d.* FROM document d
    WHERE d.organization_id = o.id
      AND coalesce((SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = d.agent_id), true) /* and */
    ORDER BY d.created_at DESC, d.id DESC LIMIT $2::bigint + $3::bigint
) d
ORDER BY d.created_at DESC, d.id DESC LIMIT $2 OFFSET $3
"""

UPDATE = "UPDATE document SET /* set */ WHERE id = $1"

DELETE = "DELETE FROM document WHERE id = $1 RETURNING id"

CHANGEABLE = frozenset({"agent_id", "project_id", "title", "content", "content_type", "updated_at"})


@dataclass(frozen=True, slots=True)
class Document:
    """A text; one without an agent belongs to all agents of the organization."""

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


@dataclass(frozen=True, slots=True)
class DocumentFilters:
    """The documents that a list shows."""

    organization_ids: tuple[UUID, ...]
    agent_id: UUID | None = None
    project_id: UUID | None = None
    created: Period = ALWAYS


class Documents:
    """The table `document`. A deleted agent's documents are not found."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def insert(self, document: Document, receipt: Receipt | None = None) -> None:
        """Store the document.

        Raise ReferenceMissing for `agent` or `project`, AnsweredBefore if the receipt exists already.
        """
        row = to_row(INSERT, document)
        await insert_once(self._pool, receipt, document.organization_id, INSERT, *row)

    async def get(self, document_id: UUID) -> Document | None:
        return await fetch_one(self._pool, Document, GET, document_id)

    async def list_page(self, filters: DocumentFilters, page: Page) -> Chunk[Document]:
        """List one page of the documents, newest first."""
        conditions = PageConditions(filters.organization_ids, page, "d.created_at, d.id")
        conditions.add_optional("d.agent_id = $", filters.agent_id)
        conditions.add_optional("d.project_id = $", filters.project_id)
        conditions.add_period("d.created_at", filters.created)
        return await fetch_page(self._pool, Document, PAGE, conditions)

    async def update(self, document_id: UUID, changes: Mapping[str, Any], now: datetime) -> Document | None:
        """Set the columns in `changes` and return the document; None if there is no such document.

        Raise ReferenceMissing for `agent` or `project`.
        """
        if changes:
            changes = {**changes, "updated_at": now}
            sql = assign(UPDATE, changes, CHANGEABLE, after=1)
            await self._pool.execute(sql, document_id, *changes.values())
        return await self.get(document_id)

    async def delete(self, document_id: UUID) -> bool:
        """Delete the document; return False if there is no such document."""
        return await self._pool.fetchval(DELETE, document_id) is not None
