"""Accounts: users, their passwords and reset codes, and their memberships."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.delivery.receipts import insert_receipt
from storage.errors import LimitReached
from storage.identity.token_holders import TokenHolders
from storage.ids import new_id
from storage.model import Organization, Receipt, Role, User
from storage.postgres.pool import Connection, Pool
from storage.postgres.rows import fetch_all, fetch_one, to_row

INSERT_USER = """
INSERT INTO user_account (id, email, name, password_hash, token_version, created_at)
VALUES ($1, $2, $3, $4, $5, $6)
"""

INSERT_ORGANIZATION = "INSERT INTO organization (id, name, created_at) VALUES ($1, $2, $3)"

INSERT_MEMBERSHIP = """
INSERT INTO membership (id, organization_id, user_id, role, created_at) VALUES ($1, $2, $3, $4, $5)
"""

GET_USER = "SELECT * FROM user_account WHERE id = $1"

GET_USER_BY_EMAIL = "SELECT * FROM user_account WHERE lower(email) = lower($1)"

REVOKE_TOKENS = "UPDATE user_account SET token_version = token_version + 1 WHERE id = $1"

# Only if the password is still the one that was verified: of two concurrent changes, one must be repeated.
REPLACE_HASH = """
UPDATE user_account
SET password_hash = $3, token_version = token_version + 1,
    reset_code_hash = NULL, reset_code_expires_at = NULL
WHERE id = $1 AND password_hash = $2
RETURNING token_version
"""

SET_RESET_CODE = """
UPDATE user_account SET reset_code_hash = $2, reset_code_expires_at = $3
WHERE lower(email) = lower($1) RETURNING id
"""

# PostgreSQL compares the code, so that an unknown address takes the same time as a wrong code.
HAS_RESET_CODE = """
SELECT EXISTS (
    SELECT FROM user_account
    WHERE lower(email) = lower($1) AND reset_code_hash = $2 AND reset_code_expires_at > $3)
"""

# One statement checks the code, deletes it and changes the password, so that a code works only once.
RESET_HASH = """
UPDATE user_account
SET password_hash = $4, token_version = token_version + 1,
    reset_code_hash = NULL, reset_code_expires_at = NULL
WHERE lower(email) = lower($1) AND reset_code_hash = $2 AND reset_code_expires_at > $3
RETURNING *
"""

LIST_MEMBERSHIPS = """
SELECT m.organization_id, o.name AS organization_name, m.role
FROM membership m JOIN organization o ON o.id = m.organization_id
WHERE m.user_id = $1
ORDER BY m.created_at, m.id
"""


# New organizations of one user wait for each other: otherwise two could pass the limit together.
LOCK_USER = "SELECT 1 FROM user_account WHERE id = $1 FOR NO KEY UPDATE"

COUNT_OWNED = "SELECT count(*) FROM membership WHERE user_id = $1 AND role = 'owner'"


@dataclass(frozen=True, slots=True)
class Membership:
    """One user's role in one organization."""

    organization_id: UUID
    organization_name: str
    role: Role


class Accounts:
    """The table `user_account`, and the organizations that users create."""

    def __init__(self, pool: Pool, token_holders: TokenHolders) -> None:
        self._pool = pool
        self._token_holders = token_holders

    async def insert_account(self, user: User, organization: Organization) -> None:
        """Store a user and the user's new organization. Raise NotUnique if the e-mail address is taken."""
        async with self._pool.transaction() as connection:
            await insert_user(connection, user)
            await _insert_owned(connection, organization, user.id)

    async def insert_organization(
        self, organization: Organization, owner_id: UUID, max_owned: int, receipt: Receipt | None = None
    ) -> None:
        """Store a further organization of a user, who owns it.

        Raise LimitReached if the user owns `max_owned` organizations (0: no limit), AnsweredBefore if the
        receipt exists already.
        """
        with self._token_holders.invalidating():
            async with self._pool.transaction() as connection:
                await insert_receipt(connection, receipt, organization.id)
                await connection.execute(LOCK_USER, owner_id)
                if max_owned and await connection.fetchval(COUNT_OWNED, owner_id) >= max_owned:
                    raise LimitReached("organizations_per_user", max_owned, who="You have")
                await _insert_owned(connection, organization, owner_id)

    async def get_user(self, user_id: UUID) -> User | None:
        return await fetch_one(self._pool, User, GET_USER, user_id)

    async def get_user_by_email(self, email: str) -> User | None:
        """Return the user with this address, compared without regard to case."""
        return await fetch_one(self._pool, User, GET_USER_BY_EMAIL, email)

    async def revoke_tokens(self, user_id: UUID) -> None:
        """Revoke every token that has been issued to the user."""
        with self._token_holders.invalidating():
            await self._pool.execute(REVOKE_TOKENS, user_id)

    async def replace_password(self, user: User, password_hash: str) -> int | None:
        """Replace the password and return the new token version; None if the password is not that of `user`.

        Older tokens and a reset code stop working.
        """
        with self._token_holders.invalidating():
            version: int | None = await self._pool.fetchval(
                REPLACE_HASH, user.id, user.password_hash, password_hash
            )
        return version

    async def set_reset_code(self, email: str, code_hash: bytes, expires_at: datetime) -> bool:
        """Replace the code that resets the user's password; return False if there is no such user."""
        return await self._pool.fetchval(SET_RESET_CODE, email, code_hash, expires_at) is not None

    async def has_reset_code(self, email: str, code_hash: bytes, now: datetime) -> bool:
        """Return whether this code can reset the password of the user with this address."""
        found: bool = await self._pool.fetchval(HAS_RESET_CODE, email, code_hash, now)
        return found

    async def reset_password(
        self, email: str, code_hash: bytes, password_hash: str, now: datetime
    ) -> User | None:
        """Replace the password and return the user, whose older tokens stop working.

        Return None if the user is unknown, or the code is wrong, used or expired.
        """
        with self._token_holders.invalidating():
            return await fetch_one(self._pool, User, RESET_HASH, email, code_hash, now, password_hash)

    async def list_memberships(self, user_id: UUID) -> list[Membership]:
        """List the user's memberships, oldest first."""
        return await fetch_all(self._pool, Membership, LIST_MEMBERSHIPS, user_id)


async def _insert_owned(connection: Connection, organization: Organization, owner_id: UUID) -> None:
    await connection.execute(INSERT_ORGANIZATION, organization.id, organization.name, organization.created_at)
    await connection.execute(
        INSERT_MEMBERSHIP, new_id(), organization.id, owner_id, Role.OWNER, organization.created_at
    )


async def insert_user(connection: Connection, user: User) -> None:
    """Store the user. Raise NotUnique if the e-mail address is taken."""
    await connection.execute(INSERT_USER, *to_row(INSERT_USER, user))
