"""Tools: the operations that an adapter lets agents call."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_receipt
from storage.errors import ReferenceMissing
from storage.model import Receipt
from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.rows import fetch_one, from_row, to_row
from storage.postgres.shared_reads import SharedReads

INSERT = """
INSERT INTO tool (
    id, adapter_id, name, description, parameters, is_enforced, url, handler, detail_url, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""

GET_ORGANIZATION = "SELECT organization_id FROM adapter WHERE id = $1"

GET = "SELECT * FROM tool WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"

# Select by the adapters, of which an organization sees few, so that other organizations' tools are not read.
PAGE = """
SELECT t.* FROM tool t
WHERE t.adapter_id IN (
    SELECT id FROM adapter WHERE organization_id = ANY ($1::uuid[])
    UNION ALL SELECT id FROM adapter WHERE visibility = 'public') /* and */
ORDER BY t.created_at DESC, t.id DESC LIMIT $2 OFFSET $3
"""

UPDATE = "UPDATE tool SET /* set */ WHERE id = $1 RETURNING *"

DELETE = "DELETE FROM tool WHERE id = $1 RETURNING id"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `parameters` describe its arguments: a JSON Schema, or any other JSON value; None for none.

    If `is_enforced`, they are a JSON Schema of objects, and the arguments of a call must be valid under it.
    """

    id: UUID
    adapter_id: UUID
    name: str
    description: str
    parameters: Any
    is_enforced: bool
    url: str
    handler: str
    detail_url: str
    created_at: datetime


class Tools:
    """The table `tool`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads(
            "tools", pool, GET, partial(from_row, Tool), texts=("description",), documents=("parameters",)
        )

    async def insert(self, tool: Tool, receipt: Receipt | None = None) -> None:
        """Store the tool. A receipt belongs to the organization of the adapter.

        Raise NotUnique if the adapter has a tool of this name, ReferenceMissing for `adapter`, AnsweredBefore
        if the receipt exists already.
        """
        async with self._pool.transaction() as connection:
            if receipt is not None:
                organization_id = await connection.fetchval(GET_ORGANIZATION, tool.adapter_id)
                if organization_id is None:
                    raise ReferenceMissing("adapter")
                await insert_receipt(connection, receipt, organization_id)
            await connection.execute(INSERT, *to_row(INSERT, tool))

    async def list_page(
        self, organization_ids: tuple[UUID, ...], adapter_id: UUID | None, page: Page
    ) -> Chunk[Tool]:
        """List one page of the tools of adapters that the organizations may see, newest first.

        `adapter_id` limits the list to one of these adapters.
        """
        conditions = PageConditions(organization_ids, page, "t.created_at, t.id")
        conditions.add_optional("t.adapter_id = $", adapter_id)
        return await fetch_page(self._pool, Tool, PAGE, conditions)

    async def update(self, tool_id: UUID, changes: Mapping[str, Any]) -> Tool | None:
        """Set the columns in `changes` and return the tool; None if there is no such tool.

        Raise NotUnique if the adapter has a tool of this name.
        """
        if not changes:
            return await self.get(tool_id)
        sql = assign(UPDATE, changes, Tool, after=1)
        return await fetch_one(self._pool, Tool, sql, tool_id, *changes.values())

    async def delete(self, tool_id: UUID) -> bool:
        return await self._pool.fetchval(DELETE, tool_id) is not None
