"""API keys, known by their prefix and the hash of the whole key."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from storage.model import ApiKey
from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Pool
from storage.postgres.query import assign
from storage.postgres.rows import from_row
from storage.postgres.ttl_cache import TtlCache

TOUCH_INTERVAL = timedelta(minutes=1)

INSERT = """
INSERT INTO api_key (id, organization_id, name, prefix, key_hash, is_active, last_used_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""

GET = "SELECT * FROM api_key WHERE id = $1"

UPDATE = "UPDATE api_key SET /* set */ WHERE id = $1 RETURNING *"

DELETE = "DELETE FROM api_key WHERE id = $1 RETURNING id"

FIND = "SELECT * FROM api_key WHERE prefix = ANY($1::text[])"

TOUCH = "UPDATE api_key SET last_used_at = greatest(last_used_at, $2) WHERE id = $1"

LIST = """
SELECT * FROM api_key WHERE organization_id = ANY($1::uuid[]) ORDER BY created_at DESC, id DESC
"""

CHANGEABLE = frozenset({"name", "is_active"})


class ApiKeys:
    """The table `api_key`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._finds = GroupCommit("API keys", self._find_many)
        self._remembered = TtlCache(self._finds.add)
        self._touched_at: dict[UUID, datetime] = {}

    async def close(self) -> None:
        await self._finds.close()

    async def insert(self, key: ApiKey, key_hash: bytes) -> None:
        """NotUnique if the prefix is taken."""
        await self._pool.execute(
            INSERT,
            key.id,
            key.organization_id,
            key.name,
            key.prefix,
            key_hash,
            key.is_active,
            key.last_used_at,
            key.created_at,
        )

    async def get(self, key_id: UUID) -> ApiKey | None:
        row = await self._pool.fetchrow(GET, key_id)
        return None if row is None else from_row(ApiKey, row)

    async def update(self, key_id: UUID, changes: Mapping[str, Any]) -> ApiKey | None:
        """The key after the changes, by column, as the very next `find` knows it; None if there is none."""
        if not changes:
            return await self.get(key_id)
        sql = assign(UPDATE, changes, CHANGEABLE, after=1)
        with self._remembered.changing():
            row = await self._pool.fetchrow(sql, key_id, *changes.values())
        return None if row is None else from_row(ApiKey, row)

    async def delete(self, key_id: UUID) -> bool:
        """Whether there was such a key; the very next `find` does not know it."""
        self._touched_at.pop(key_id, None)
        with self._remembered.changing():
            return await self._pool.fetchval(DELETE, key_id) is not None

    async def find(self, prefix: str, now: datetime) -> tuple[ApiKey, bytes] | None:
        """The key with this prefix, and its hash. Every request with a key asks, so it is `TtlCache`."""
        return await self._remembered.get(prefix, now)

    async def touch(self, key_id: UUID, now: datetime) -> None:
        """Note that the key was used; written at most once a minute."""
        last = self._touched_at.get(key_id)
        if last is None or now - last >= TOUCH_INTERVAL:
            self._touched_at[key_id] = now
            await self._pool.execute(TOUCH, key_id, now)

    async def _find_many(self, prefixes: list[str]) -> list[tuple[ApiKey, bytes] | None]:
        rows = await self._pool.fetch(FIND, list(set(prefixes)))
        found = {row["prefix"]: (from_row(ApiKey, row), row["key_hash"]) for row in rows}
        return [found.get(prefix) for prefix in prefixes]

    async def list(self, organization_ids: Sequence[UUID]) -> list[ApiKey]:
        """The organizations' keys, newest first."""
        return [from_row(ApiKey, row) for row in await self._pool.fetch(LIST, organization_ids)]
