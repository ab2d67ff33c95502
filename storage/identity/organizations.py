"""Organizations with their members: who belongs to one in which role, and who is invited."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from storage.delivery.receipts import insert_once
from storage.errors import Forbidden, LastOwner
from storage.events.model import BY_SERVICE
from storage.identity.accounts import TokenHolders, insert_user
from storage.ids import new_id
from storage.model import Organization, Receipt, Role, User
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, PageConditions, fetch_page
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import assign
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import delete_row, fetch_all, fetch_one, fields_of, from_row, insert_into

GET_ORGANIZATION = "SELECT * FROM organization WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"

LIST_BY_NAME = "SELECT * FROM organization WHERE name = $1 ORDER BY created_at, id"

PAGE_ORGANIZATION = """
SELECT * FROM organization
WHERE id = ANY($1::uuid[])/* and */
ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3
"""

UPDATE_ORGANIZATION = """
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

LIST_PAUSED = "SELECT id FROM organization WHERE paused OR (SELECT paused_at FROM instance) IS NOT NULL"


class Organizations:
    """The table `organization`; `Accounts` inserts the rows, each with its first owner."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads("organizations", pool, GET_ORGANIZATION, partial(from_row, Organization))

    async def list_by_name(self, name: str) -> list[Organization]:
        """List the organizations with exactly this name, oldest first."""
        return await fetch_all(self._pool, Organization, LIST_BY_NAME, name)

    async def list_page(self, organization_ids: Sequence[UUID], page: Page) -> Chunk[Organization]:
        """List one page of these organizations, newest first."""
        conditions = PageConditions(organization_ids, page, "created_at, id")
        return await fetch_page(self._pool, Organization, PAGE_ORGANIZATION, conditions)

    async def update(
        self, organization_id: UUID, changes: Mapping[str, Any], now: datetime, *, actor: str = BY_SERVICE
    ) -> Organization | None:
        """Set the columns in `changes` and return the organization; None if there is none."""
        if not changes:
            return await self.get(organization_id)
        sql = assign(UPDATE_ORGANIZATION, changes, Organization, after=3)
        rows = await self._pool.change(sql, organization_id, now, actor, *changes.values())
        return from_row(Organization, rows[0]) if rows else None

    async def list_paused(self) -> list[UUID]:
        return [row["id"] for row in await self._pool.fetch(LIST_PAUSED)]


GET_MEMBER = """
SELECT m.id, m.organization_id, m.role, m.created_at, m.user_id, u.email, u.name
FROM membership m CROSS JOIN LATERAL (SELECT email, name FROM user_account WHERE id = m.user_id OFFSET 0) u
WHERE m.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""

PAGE_MEMBER = """
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

DELETE_MEMBER = "DELETE FROM membership WHERE id = $1"


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
        self.get = SharedReads("memberships", pool, GET_MEMBER, partial(from_row, Member))

    async def list_page(self, organization_ids: Sequence[UUID], page: Page) -> Chunk[Member]:
        """List one page of the organizations' members, newest first."""
        conditions = PageConditions(organization_ids, page, "m.created_at, m.id")
        return await fetch_page(self._pool, Member, PAGE_MEMBER, conditions)

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
            return await fetch_one(connection, Member, GET_MEMBER, [membership_id])

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
            await connection.execute(DELETE_MEMBER, membership_id)
            return True

    @asynccontextmanager
    async def _write(self) -> AsyncIterator[Connection]:
        """Open a transaction whose changes the next request sees."""
        async with self._token_holders.invalidating(), self._pool.transaction() as connection:
            yield connection


async def _lock(connection: Connection, membership_id: UUID, by: Role) -> Member | None:
    """Return the member and lock the roles of the organization until the transaction ends."""
    await connection.execute(LOCK_ORGANIZATION, membership_id)
    row = await connection.fetchrow(GET_MEMBER, [membership_id])
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


# Of several concurrent requests, the first locks the row; the others then find the invitation accepted.
ACCEPT = """
UPDATE invite SET accepted_at = $2 WHERE id = $1 AND accepted_at IS NULL AND expires_at > $2
RETURNING organization_id, role
"""

# A user who is a member already keeps the role: an invitation cannot change it.
INSERT_MEMBERSHIP_IF_NEW = """
INSERT INTO membership (id, organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT ON CONSTRAINT membership_unique DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Invite:
    """An invitation for one e-mail address; its code is known only by its hash."""

    id: UUID
    organization_id: UUID
    email: str
    role: Role
    code_hash: bytes = field(repr=False)
    expires_at: datetime
    accepted_at: datetime | None
    created_at: datetime

    def is_open(self, now: datetime) -> bool:
        """Return whether the invitation can still be accepted."""
        return self.accepted_at is None and self.expires_at > now


TABLE_INVITE = OwnedTable("invite", "i", Invite)


class Invites:
    """The table `invite`."""

    def __init__(self, pool: Pool, token_holders: TokenHolders) -> None:
        self._pool = pool
        self._token_holders = token_holders
        self.get = SharedReads("invites", pool, TABLE_INVITE.get, partial(from_row, Invite))

    async def insert(self, invite: Invite, receipt: Receipt | None = None) -> None:
        """Store the invitation. Raise AnsweredBefore if the receipt exists already."""
        insert = insert_into("invite", fields_of(invite))
        await insert_once(self._pool, receipt, invite.organization_id, *insert)

    async def list_page(self, organization_ids: Sequence[UUID], page: Page) -> Chunk[Invite]:
        """List one page of the organizations' invitations, newest first."""
        conditions = OrganizationsPage(organization_ids, page, TABLE_INVITE.order)
        return await fetch_page(self._pool, Invite, TABLE_INVITE.page, conditions)

    async def delete(self, invite_id: UUID) -> bool:
        return await delete_row(self._pool, "invite", invite_id)

    async def accept(self, invite_id: UUID, user: User, now: datetime, *, is_new: bool) -> bool:
        """Make the user a member; return False if the invitation has been used or deleted, or is expired.

        If `is_new`, store the user, too. Raise NotUnique if the e-mail address has been taken.
        """
        async with self._token_holders.invalidating(), self._pool.transaction() as connection:
            row = await connection.fetchrow(ACCEPT, invite_id, now)
            if row is None:
                return False
            if is_new:
                await insert_user(connection, user)
            await connection.execute(
                INSERT_MEMBERSHIP_IF_NEW, new_id(), row["organization_id"], user.id, row["role"], now
            )
            return True
