"""Approval grants: calls of one agent and tool that need no further decision of a person."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Connection, Pool
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import fetch_all, fields_of, from_row, insert_into

MAX_TRIED = 20  # grants of one tool for which a call is checked


@dataclass(frozen=True, slots=True)
class ApprovalGrant:
    """A grant, given with the decision on a call: for exactly its arguments if it has their `digest`.

    Otherwise `arguments_schema` says which arguments it covers, None: any. It ends at `until`, after
    `max_uses`, when it is revoked, and when the tool changes.
    """

    id: UUID
    organization_id: UUID
    agent_id: UUID
    tool_id: UUID
    tool_digest: bytes
    call_id: UUID
    digest: bytes | None
    arguments_schema: Any
    until: datetime | None
    max_uses: int | None
    created_at: datetime
    created_by: str
    used_count: int = 0
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str = ""
    agent_name: str = ""
    tool: str = ""
    is_for_present_tool: bool = True


SHOWN_ONLY = ("agent_name", "tool", "is_for_present_tool")

SHOWN = """(
    SELECT g.*, a.name AS agent_name, t.name AS tool, tool_digest(t) = g.tool_digest AS is_for_present_tool
    FROM approval_grant g JOIN agent a ON a.id = g.agent_id JOIN tool t ON t.id = g.tool_id
    WHERE a.deleted_at IS NULL)"""
TABLE = OwnedTable(SHOWN, "g", ApprovalGrant)

# First those for exactly these arguments, then those for any, last those whose schema must be checked.
LIST_USABLE = f"""
SELECT * FROM {SHOWN} g
WHERE agent_id = $1 AND tool_id = $2 AND revoked_at IS NULL AND (until IS NULL OR until > $4)
  AND (max_uses IS NULL OR used_count < max_uses) AND (digest IS NULL OR digest = $3) AND is_for_present_tool
ORDER BY digest IS NULL, arguments_schema IS NOT NULL, id LIMIT {MAX_TRIED}
"""  # noqa: S608

USE = """
UPDATE approval_grant SET used_count = used_count + 1, last_used_at = $2
WHERE id = $1 AND revoked_at IS NULL AND (until IS NULL OR until > $2)
  AND (max_uses IS NULL OR used_count < max_uses)
RETURNING id
"""

REVOKE = "UPDATE approval_grant SET revoked_at = $2, revoked_by = $3 WHERE id = $1 AND revoked_at IS NULL"


class ApprovalGrants:
    """The table `approval_grant`; a grant is inserted with the decision that gives it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads(
            "approval grants",
            pool,
            TABLE.get,
            partial(from_row, ApprovalGrant),
            documents=("g.arguments_schema",),
        )

    async def list_page(
        self,
        organization_ids: tuple[UUID, ...],
        page: Page,
        *,
        agent: UUID | None = None,
        tool: UUID | None = None,
    ) -> Chunk[ApprovalGrant]:
        """List one page of the grants, newest first, those that have ended among them."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        conditions.add_optional("g.agent_id = $", agent)
        conditions.add_optional("g.tool_id = $", tool)
        return await fetch_page(self._pool, ApprovalGrant, TABLE.page, conditions)

    async def list_usable(
        self, agent_id: UUID, tool_id: UUID, digest: bytes, now: datetime
    ) -> list[ApprovalGrant]:
        """List grants that may cover a call with this digest; one with a schema must still be checked."""
        return await fetch_all(self._pool, ApprovalGrant, LIST_USABLE, agent_id, tool_id, digest, now)

    async def use(self, grant_id: UUID, now: datetime) -> bool:
        """Count a use of the grant. Return False if it has ended since it was read."""
        return bool(await self._pool.fetch(USE, grant_id, now))

    async def revoke(self, grant_id: UUID, now: datetime, *, actor: str) -> ApprovalGrant | None:
        """Revoke the grant and return it; None if there is none. The first to revoke it stays."""
        await self._pool.execute(REVOKE, grant_id, now, actor)
        return await self.get(grant_id)


async def insert_grant(connection: Connection, grant: ApprovalGrant) -> None:
    """Store the grant within the transaction of the decision."""
    await connection.execute(*insert_into("approval_grant", fields_of(grant, without=SHOWN_ONLY)))
