"""Memberships, as the admins of an organization see and change them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from storage.errors import Forbidden, LastOwner
from storage.identity.token_holders import TokenHolders
from storage.model import Role
from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Connection, Pool
from storage.postgres.rows import fetch_one, from_row
from storage.postgres.shared_reads import SharedReads

GET = """
SELECT m.id, m.organization_id, m.role, m.created_at, m.user_id, u.email, u.name
FROM membership m CROSS JOIN LATERAL (SELECT email, name FROM user_account WHERE id = m.user_id OFFSET 0) u
WHERE m.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""

PAGE = """
SELECT m.id, m.organization_id, m.role, m.created_at, m.user_id, u.email, u.name
FROM membership m JOIN user_account u ON u.id = m.user_id
WHERE m.organization_id = ANY($1::uuid[])/* and */
ORDER BY m.created_at DESC, m.id DESC LIMIT $2 OFFSET $3
"""

# Changes of one organization's roles wait for each other: otherwise its last two owners could leave at once.
LOCK_ORGANIZATION = """
SELECT 1 FROM organization
WHERE id = (SELECT organization_id FROM membership WHERE id = $1) FOR NO KEY UPDATE
"""

COUNT_OTHER_OWNERS = """
SELECT count(*) FROM membership WHERE organization_id = $1 AND role = 'owner' AND id <> $2
"""

UPDATE_ROLE = "UPDATE membership SET role = $2 WHERE id = $1"

DELETE = "DELETE FROM membership WHERE id = $1"


@dataclass(frozen=True, slots=True)
class Member:
    """A user in an organization."""

    id: UUID
    organization_id: UUID
    user_id: UUID
    email: str
    name: str
    role: Role
    created_at: datetime


class Memberships:
    """The table `membership`, as the admins of an organization use it."""

    def __init__(self, pool: Pool, token_holders: TokenHolders) -> None:
        self._pool = pool
        self._token_holders = token_holders
        self.get = SharedReads("memberships", pool, GET, partial(from_row, Member))

    async def list_page(self, organization_ids: Sequence[UUID], page: Page) -> Chunk[Member]:
        """List one page of the organizations' members, newest first."""
        conditions = PageConditions(organization_ids, page, "m.created_at, m.id")
        return await fetch_page(self._pool, Member, PAGE, conditions)

    async def update_role(self, membership_id: UUID, role: Role, by: Role) -> Member | None:
        """Change the role and return the member; None if there is no such membership.

        `by` is the role of the caller. Raise Forbidden if the member's old or new role is above it, LastOwner
        if the organization would be left without an owner.
        """
        async with self._write() as connection:
            member = await _lock(connection, membership_id, by)
            if member is None:
                return None
            if role.is_above(by):
                raise Forbidden(f"the role {by} cannot make a member {role}")
            if role is not Role.OWNER:
                await _require_other_owner(connection, member)
            await connection.execute(UPDATE_ROLE, membership_id, role)
            return await fetch_one(connection, Member, GET, [membership_id])

    async def delete(self, membership_id: UUID, by: Role) -> bool:
        """Delete the membership; return False if there is no such membership.

        Raise Forbidden if the member's role is above `by`, the role of the caller, LastOwner if the
        organization would be left without an owner.
        """
        async with self._write() as connection:
            member = await _lock(connection, membership_id, by)
            if member is None:
                return False
            await _require_other_owner(connection, member)
            await connection.execute(DELETE, membership_id)
            return True

    @asynccontextmanager
    async def _write(self) -> AsyncIterator[Connection]:
        """Open a transaction whose changes the next request sees."""
        with self._token_holders.invalidating():
            async with self._pool.transaction() as connection:
                yield connection


async def _lock(connection: Connection, membership_id: UUID, by: Role) -> Member | None:
    """Return the member and lock the roles of the organization until the transaction ends."""
    await connection.execute(LOCK_ORGANIZATION, membership_id)
    row = await connection.fetchrow(GET, [membership_id])
    if row is None:
        return None
    member = from_row(Member, row)
    if member.role.is_above(by):
        raise Forbidden(f"the role {by} cannot change a member with the role {member.role}")
    return member


async def _require_other_owner(connection: Connection, member: Member) -> None:
    if member.role is not Role.OWNER:
        return
    if not await connection.fetchval(COUNT_OTHER_OWNERS, member.organization_id, member.id):
        raise LastOwner("An organization always keeps one owner.")
