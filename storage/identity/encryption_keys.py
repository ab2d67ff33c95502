"""The encryption keys in use, by their ids: the keys themselves stand only in the configuration."""

from collections.abc import Collection
from datetime import datetime

from storage.errors import DatabaseRefused
from storage.postgres.pool import Connection, Pool

LIST = "SELECT id FROM encryption_key ORDER BY created_at, id"

# In a new installation nothing is stored in clear yet, so there is nothing to rotate.
INSERT = """
INSERT INTO encryption_key (id, created_at, rotated_at)
SELECT $1, $2::timestamptz, CASE WHEN token_secret IS NULL AND operator_token IS NULL
    AND NOT EXISTS (SELECT FROM organization) THEN $2::timestamptz END
FROM instance
ON CONFLICT DO NOTHING
"""

IS_ROTATED = "SELECT rotated_at IS NOT NULL FROM encryption_key WHERE id = $1"

RETIRE = """
WITH rotated AS (UPDATE encryption_key SET rotated_at = $3 WHERE id = $1)
DELETE FROM encryption_key WHERE id = ANY ($2::text[])
"""


class EncryptionKeys:
    """The table `encryption_key`."""

    def __init__(self, database: "Pool | Connection") -> None:
        self._database = database

    async def list_in_use(self) -> list[str]:
        """List the ids of the keys under which something may be stored, the oldest first."""
        return [row["id"] for row in await self._database.fetch(LIST)]

    async def require_known(self, key_ids: Collection[str]) -> None:
        """Raise DatabaseRefused if something may be stored under a key that is not among these."""
        missing = [key_id for key_id in await self.list_in_use() if key_id not in key_ids]
        if missing:
            raise DatabaseRefused(
                f"the database holds secrets encrypted with the key {', '.join(missing)}, which is not in "
                "accounts.encryption_keys: add it at the end of the list (run hostsvc rotate-keys before you "
                "remove it again)"
            )

    async def insert(self, key_id: str, now: datetime) -> None:
        """Record that the service encrypts with this key from now on."""
        await self._database.execute(INSERT, key_id, now)

    async def is_rotated(self, key_id: str) -> bool:
        """Return whether every secret that was stored before this key has been encrypted with it."""
        return bool(await self._database.fetchval(IS_ROTATED, key_id))

    async def retire(self, rotated_id: str, old_ids: Collection[str], now: datetime) -> None:
        """Record that every secret is encrypted with the rotated key, and none with the old ones."""
        await self._database.execute(RETIRE, rotated_id, old_ids, now)
