"""Organizations: their names, their spending caps, and whether they are paused."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from storage.events.model import BY_SERVICE
from storage.model import Organization
from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.rows import fetch_all, from_row
from storage.postgres.shared_reads import SharedReads

GET = "SELECT * FROM organization WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"

LIST_BY_NAME = "SELECT * FROM organization WHERE name = $1 ORDER BY created_at, id"

PAGE = """
SELECT * FROM organization
WHERE id = ANY($1::uuid[])/* and */
ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3
"""

UPDATE = """
WITH locked AS MATERIALIZED (
    SELECT id, paused FROM organization WHERE id = $1 FOR NO KEY UPDATE
), updated AS (
    UPDATE organization SET /* set */ FROM locked WHERE organization.id = locked.id
    RETURNING organization.*, locked.paused AS was_paused
), inserted_event AS (
    INSERT INTO event (at, type, organization_id, actor)
    SELECT $2, CASE WHEN paused THEN 'organization.paused' ELSE 'organization.unpaused' END, id, $3
    FROM updated WHERE paused <> was_paused
)
SELECT * FROM updated
"""

LIST_PAUSED = "SELECT id FROM organization WHERE paused"


class Organizations:
    """The table `organization`; `Accounts` inserts the rows, each with its first owner."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads("organizations", pool, GET, partial(from_row, Organization))

    async def list_by_name(self, name: str) -> list[Organization]:
        """List the organizations with exactly this name, oldest first."""
        return await fetch_all(self._pool, Organization, LIST_BY_NAME, name)

    async def list_page(self, organization_ids: Sequence[UUID], page: Page) -> Chunk[Organization]:
        """List one page of these organizations, newest first."""
        conditions = PageConditions(organization_ids, page, "created_at, id")
        return await fetch_page(self._pool, Organization, PAGE, conditions)

    async def update(
        self, organization_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Organization | None:
        """Set the columns in `changes` and return the organization; None if there is none."""
        if not changes:
            return await self.get(organization_id)
        sql = assign(UPDATE, changes, Organization, after=3)
        rows = await self._pool.change(sql, organization_id, now, actor, *changes.values())
        return from_row(Organization, rows[0]) if rows else None

    async def list_paused(self) -> list[UUID]:
        return [row["id"] for row in await self._pool.fetch(LIST_PAUSED)]
