"""Invitations into an organization; each can be accepted once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

from storage.delivery.receipts import insert_once
from storage.identity.accounts import insert_user
from storage.identity.token_holders import TokenHolders
from storage.ids import new_id
from storage.model import Receipt, Role, User
from storage.postgres.owned_tables import OwnedTable
from storage.postgres.page_conditions import OrganizationsPage, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.rows import from_row, to_row
from storage.postgres.shared_reads import SharedReads

INSERT = """
INSERT INTO invite (id, organization_id, email, role, code_hash, expires_at, accepted_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""

DELETE = "DELETE FROM invite WHERE id = $1 RETURNING id"

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


TABLE = OwnedTable("invite", "i", Invite)


class Invites:
    """The table `invite`."""

    def __init__(self, pool: Pool, token_holders: TokenHolders) -> None:
        self._pool = pool
        self._token_holders = token_holders
        self.get = SharedReads("invites", pool, TABLE.get, partial(from_row, Invite))

    async def insert(self, invite: Invite, receipt: Receipt | None = None) -> None:
        """Store the invitation. Raise AnsweredBefore if the receipt exists already."""
        row = to_row(INSERT, invite)
        await insert_once(self._pool, receipt, invite.organization_id, INSERT, *row)

    async def list_page(self, organization_ids: Sequence[UUID], page: Page) -> Chunk[Invite]:
        """List one page of the organizations' invitations, newest first."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        return await fetch_page(self._pool, Invite, TABLE.page, conditions)

    async def delete(self, invite_id: UUID) -> bool:
        return await self._pool.fetchval(DELETE, invite_id) is not None

    async def accept(self, invite_id: UUID, user: User, now: datetime, *, is_new: bool) -> bool:
        """Make the user a member; return False if the invitation has been used or deleted, or is expired.

        If `is_new`, store the user, too. Raise NotUnique if the e-mail address has been taken.
        """
        with self._token_holders.invalidating():
            async with self._pool.transaction() as connection:
                row = await connection.fetchrow(ACCEPT, invite_id, now)
                if row is None:
                    return False
                if is_new:
                    await insert_user(connection, user)
                await connection.execute(
                    INSERT_MEMBERSHIP_IF_NEW, new_id(), row["organization_id"], user.id, row["role"], now
                )
                return True
