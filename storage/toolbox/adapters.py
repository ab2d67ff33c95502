"""Adapters: packages of tools that can be attached to agents."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_once
from storage.model import Receipt, Visibility
from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.rows import fetch_one, from_row, to_row
from storage.postgres.shared_reads import SharedReads

INSERT = """
INSERT INTO adapter (
    id, organization_id, name, description, visibility, detail_url, config_schema, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""

GET = "SELECT * FROM adapter WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"

# Read a page of each organization, and one of the public adapters of others, each along its index; then take
# the newest of all.
PAGE = """
SELECT * FROM (
    SELECT a.* FROM unnest($1::uuid[]) AS o (id)
    CROSS JOIN LATERAL (
        SELECT a.* FROM adapter a WHERE a.organization_id = o.id /* and */
        ORDER BY a.created_at DESC, a.id DESC LIMIT $2::bigint + $3::bigint
    ) a
    UNION ALL (
        SELECT a.* FROM adapter a
        WHERE a.visibility = 'public' AND a.organization_id <> ALL ($1::uuid[]) /* and */
        ORDER BY a.created_at DESC, a.id DESC LIMIT $2::bigint + $3::bigint
    )
) a
ORDER BY a.created_at DESC, a.id DESC LIMIT $2 OFFSET $3
"""

UPDATE = "UPDATE adapter SET /* set */ WHERE id = $1 RETURNING *"

PUBLISH = "UPDATE adapter SET visibility = 'public' WHERE id = $1 RETURNING *"

# The foreign keys delete its tools and its configs, and detach it from its agents.
DELETE = "DELETE FROM adapter WHERE id = $1 RETURNING id"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter; `config_schema` is the JSON Schema of its configs."""

    id: UUID
    organization_id: UUID
    name: str
    description: str
    visibility: Visibility
    detail_url: str
    config_schema: dict[str, Any]
    created_at: datetime


class Adapters:
    """The table `adapter`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads(
            "adapters",
            pool,
            GET,
            partial(from_row, Adapter),
            texts=("description",),
            documents=("config_schema",),
        )

    async def insert(self, adapter: Adapter, receipt: Receipt | None = None) -> None:
        """Store the adapter. Raise AnsweredBefore if the receipt exists already."""
        row = to_row(INSERT, adapter)
        await insert_once(self._pool, receipt, adapter.organization_id, INSERT, *row)

    async def list_page(
        self, organization_ids: tuple[UUID, ...], visibility: Visibility | None, page: Page
    ) -> Chunk[Adapter]:
        """List one page of the adapters that the organizations may see, newest first.

        These are their own adapters and the public ones.
        """
        conditions = PageConditions(organization_ids, page, "a.created_at, a.id")
        conditions.add_optional("a.visibility = $", visibility)
        return await fetch_page(self._pool, Adapter, PAGE, conditions)

    async def update(self, adapter_id: UUID, changes: Mapping[str, Any]) -> Adapter | None:
        """Set the columns in `changes` and return the adapter; None if there is no such adapter."""
        if not changes:
            return await self.get(adapter_id)
        sql = assign(UPDATE, changes, Adapter, after=1)
        return await fetch_one(self._pool, Adapter, sql, adapter_id, *changes.values())

    async def publish(self, adapter_id: UUID) -> Adapter | None:
        """Make the adapter visible to every organization and return it; None if there is no such adapter."""
        return await fetch_one(self._pool, Adapter, PUBLISH, adapter_id)

    async def delete(self, adapter_id: UUID) -> bool:
        """Delete the adapter with its tools and configs, and detach it from its agents.

        Return False if there is no such adapter.
        """
        return await self._pool.fetchval(DELETE, adapter_id) is not None
