"""Accounts: users, what their tokens allow, their passwords, and the networks they log in from."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from uuid import UUID

from storage.delivery.receipts import insert_receipt
from storage.errors import LimitReached
from storage.ids import new_id
from storage.model import Organization, Receipt, Role, User
from storage.postgres.pool import Connection, Pool
from storage.postgres.shared_reads import TtlCache, no_other_cache
from storage.postgres.statement import fetch_all, fetch_one, fields_of, insert_into

LIST_HOLDERS = """
SELECT u.id, u.token_version, m.organization_id, m.role
FROM user_account u LEFT JOIN membership m ON m.user_id = u.id
WHERE u.id = ANY($1::uuid[])
ORDER BY m.created_at, m.id
"""


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """A user, the version that its tokens must have, and its roles by organization, oldest first."""

    user_id: UUID
    token_version: int
    roles: Mapping[UUID, Role]


class TokenHolders:
    """A cache over the tables `user_account` and `membership`; writes to them go inside `invalidating()`."""

    def __init__(self, pool: Pool, others_forget: Callable[[], Awaitable[None]] = no_other_cache) -> None:
        self._pool = pool
        self._reads = pool.group_commit("token holders", self._get_many)
        self._cache = TtlCache(self._reads.add, others_forget)

    async def get(self, user_id: UUID, now: datetime) -> TokenHolder | None:
        """Return the user, None if there is none, from a cache: each request with a token needs it.

        Concurrent reads share a statement.
        """
        return await self._cache.get(user_id, now)

    def invalidating(self) -> AbstractAsyncContextManager[None]:
        """Enclose a write to those tables, so that the next `get` sees it, on each node."""
        return self._cache.invalidating()

    async def _get_many(self, user_ids: list[UUID]) -> list[TokenHolder | None]:
        versions: dict[UUID, int] = {}
        roles: dict[UUID, dict[UUID, Role]] = {}
        for row in await self._pool.fetch(LIST_HOLDERS, list(set(user_ids))):
            versions[row["id"]] = row["token_version"]
            user_roles = roles.setdefault(row["id"], {})
            if row["organization_id"] is not None:
                user_roles[row["organization_id"]] = Role(row["role"])
        return [
            TokenHolder(user_id, versions[user_id], MappingProxyType(roles[user_id]))
            if user_id in versions
            else None
            for user_id in user_ids
        ]


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
WHERE lower(email) = lower($1) AND (reset_code_expires_at < $4) IS NOT FALSE RETURNING id
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

        async def work(connection: Connection) -> None:
            await insert_receipt(connection, receipt, organization.id)
            await connection.execute(LOCK_USER, owner_id)
            if max_owned and await connection.fetchval(COUNT_OWNED, owner_id) >= max_owned:
                message = f"You have reached limits.organizations_per_user, which is {max_owned}."
                raise LimitReached("organizations_per_user", max_owned, message)
            await _insert_owned(connection, organization, owner_id)

        async with self._token_holders.invalidating():
            await self._pool.write(work, f"insert of organization {organization.id}")

    async def get_user(self, user_id: UUID) -> User | None:
        return await fetch_one(self._pool, User, GET_USER, user_id)

    async def get_user_by_email(self, email: str) -> User | None:
        """Return the user with this address, compared without regard to case."""
        return await fetch_one(self._pool, User, GET_USER_BY_EMAIL, email)

    async def revoke_tokens(self, user_id: UUID) -> None:
        """Revoke every token that has been issued to the user."""
        async with self._token_holders.invalidating():
            await self._pool.execute(REVOKE_TOKENS, user_id)

    async def replace_password(self, user: User, password_hash: str) -> int | None:
        """Replace the password and return the new token version; None if the password is not that of `user`.

        Older tokens and a reset code stop working.
        """
        async with self._token_holders.invalidating():
            version: int | None = await self._pool.fetchval(
                REPLACE_HASH, user.id, user.password_hash, password_hash
            )
        return version

    async def set_reset_code(
        self, email: str, code_hash: bytes, expires_at: datetime, if_before: datetime | None = None
    ) -> bool:
        """Replace the code that resets the user's password, if the old one expires before a moment.

        Return False if it expires later, or if there is no such user.
        """
        return await self._pool.fetchval(SET_RESET_CODE, email, code_hash, expires_at, if_before) is not None

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
        async with self._token_holders.invalidating():
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
    await connection.execute(*insert_into("user_account", fields_of(user)))


REMEMBERED = timedelta(days=90)
MAX_NETWORKS = 20  # of one user; of more, those that were used longest ago are forgotten

INSERT_NETWORK = """
INSERT INTO login_network (user_id, network_hash, logged_in_at) VALUES ($1, $2, $3)
ON CONFLICT ON CONSTRAINT login_network_pkey
DO UPDATE SET logged_in_at = greatest(login_network.logged_in_at, excluded.logged_in_at)
"""

DELETE_OLDEST = """
DELETE FROM login_network WHERE user_id = $1 AND (logged_in_at < $2 OR network_hash NOT IN (
    SELECT network_hash FROM login_network WHERE user_id = $1 ORDER BY logged_in_at DESC LIMIT $3))
"""

HAS_NETWORK = """
SELECT EXISTS (
    SELECT FROM login_network WHERE user_id = $1 AND network_hash = $2 AND logged_in_at >= $3)
"""


# For the audit log of each organization of the user, who may not be logged in.
INSERT_AUDIT = """
INSERT INTO event (at, type, organization_id, resource_id, address, actor, data)
SELECT $2, 'audit', organization_id, user_id, $3,
       CASE $4::text WHEN 'logged_in' THEN 'user:' || user_id ELSE '' END,
       json_build_object('resource', 'account', 'action', $4)
FROM membership WHERE user_id = $1
"""


class LoginNetworks:
    """The table `login_network`. A network is a text, such as an IPv4 address or an IPv6 /64."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def record(self, user_id: UUID, network: str, now: datetime, address: str = "") -> None:
        """Store that the user has logged in from the network, and forget the oldest networks."""
        async with self._pool.transaction() as connection:
            await connection.execute(INSERT_NETWORK, user_id, _hash(user_id, network), now)
            await connection.execute(DELETE_OLDEST, user_id, now - REMEMBERED, MAX_NETWORKS)
            await connection.execute(INSERT_AUDIT, user_id, now, address, "logged_in")

    async def record_refusal(self, user_id: UUID, now: datetime, address: str) -> None:
        """Store for the audit log that a wrong password was tried."""
        await self._pool.execute(INSERT_AUDIT, user_id, now, address, "login_refused")

    async def contains(self, user_id: UUID, network: str, now: datetime) -> bool:
        """Return whether the user has logged in from the network within 90 days."""
        earliest = now - REMEMBERED
        found: bool = await self._pool.fetchval(HAS_NETWORK, user_id, _hash(user_id, network), earliest)
        return found


def _hash(user_id: UUID, network: str) -> bytes:
    return hashlib.sha256(user_id.bytes + network.encode()).digest()
