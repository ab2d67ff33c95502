"""Token holders: users, their token versions and their roles, as authentication needs them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from storage.model import Role
from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Pool
from storage.postgres.ttl_cache import TtlCache

LIST = """
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

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reads = GroupCommit("token holders", self._get_many)
        self._cache = TtlCache(self._reads.add)

    async def close(self) -> None:
        await self._reads.close()

    async def get(self, user_id: UUID, now: datetime) -> TokenHolder | None:
        """Return the user, None if there is none, from a cache: each request with a token needs it.

        Concurrent reads share a statement.
        """
        return await self._cache.get(user_id, now)

    @contextmanager
    def invalidating(self) -> Iterator[None]:
        """Enclose a write to those tables, so that the next `get` sees it."""
        with self._cache.invalidating():
            yield

    async def _get_many(self, user_ids: list[UUID]) -> list[TokenHolder | None]:
        versions: dict[UUID, int] = {}
        roles: dict[UUID, dict[UUID, Role]] = {}
        for row in await self._pool.fetch(LIST, list(set(user_ids))):
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
