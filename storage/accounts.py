"""Users, their organizations, and who belongs where."""

from dataclasses import dataclass
from uuid import UUID

from storage.batching import Batch
from storage.ids import new_id
from storage.model import Membership, Organization, Role, User
from storage.pool import Pool
from storage.rows import from_row

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

GET_ORGANIZATION = "SELECT * FROM organization WHERE id = $1"

LIST_MEMBERSHIPS = """
SELECT m.organization_id, o.name AS organization_name, m.role
FROM membership m JOIN organization o ON o.id = m.organization_id
WHERE m.user_id = $1
ORDER BY m.created_at, m.id
"""

LIST_HOLDERS = """
SELECT u.id, u.token_version, m.organization_id, o.name AS organization_name, m.role
FROM user_account u
LEFT JOIN membership m ON m.user_id = u.id
LEFT JOIN organization o ON o.id = m.organization_id
WHERE u.id = ANY($1::uuid[])
ORDER BY m.created_at, m.id
"""


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """What authentication needs to know of a user; memberships oldest first."""

    user_id: UUID
    token_version: int
    memberships: tuple[Membership, ...]


class Accounts:
    """The tables `user_account`, `organization` and `membership`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._token_holders = Batch("token holders", self._get_token_holders)

    async def close(self) -> None:
        await self._token_holders.close()

    async def insert_account(self, user: User, organization: Organization) -> None:
        """A user who owns a new organization; NotUnique if the e-mail address is taken."""
        async with self._pool.transaction() as connection:
            await connection.execute(
                INSERT_USER,
                user.id,
                user.email,
                user.name,
                user.password_hash,
                user.token_version,
                user.created_at,
            )
            await connection.execute(
                INSERT_ORGANIZATION, organization.id, organization.name, organization.created_at
            )
            await connection.execute(
                INSERT_MEMBERSHIP, new_id(), organization.id, user.id, Role.OWNER, organization.created_at
            )

    async def get_user(self, user_id: UUID) -> User | None:
        row = await self._pool.fetchrow(GET_USER, user_id)
        return None if row is None else from_row(User, row)

    async def get_user_by_email(self, email: str) -> User | None:
        """The user with this address, in whatever case it is written."""
        row = await self._pool.fetchrow(GET_USER_BY_EMAIL, email)
        return None if row is None else from_row(User, row)

    async def get_organization(self, organization_id: UUID) -> Organization | None:
        row = await self._pool.fetchrow(GET_ORGANIZATION, organization_id)
        return None if row is None else from_row(Organization, row)

    async def list_memberships(self, user_id: UUID) -> list[Membership]:
        """The user's places, oldest first."""
        rows = await self._pool.fetch(LIST_MEMBERSHIPS, user_id)
        return [from_row(Membership, row, role=Role(row["role"])) for row in rows]

    async def get_token_holder(self, user_id: UUID) -> TokenHolder | None:
        """Every request with a token asks; concurrent calls share a statement."""
        return await self._token_holders.add(user_id)

    async def _get_token_holders(self, user_ids: list[UUID]) -> list[TokenHolder | None]:
        versions: dict[UUID, int] = {}
        memberships: dict[UUID, list[Membership]] = {}
        for row in await self._pool.fetch(LIST_HOLDERS, list(set(user_ids))):
            versions[row["id"]] = row["token_version"]
            places = memberships.setdefault(row["id"], [])
            if row["organization_id"] is not None:
                places.append(from_row(Membership, row, role=Role(row["role"])))
        holders = {
            user_id: TokenHolder(user_id, version, tuple(memberships[user_id]))
            for user_id, version in versions.items()
        }
        return [holders.get(user_id) for user_id in user_ids]
