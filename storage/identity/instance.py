"""This installation: secrets that it generated, exported spans, and encryption keys in use, by their ids.

The keys themselves stand only in the configuration.
"""

import secrets
from collections import Counter
from collections.abc import Collection
from datetime import datetime

from storage.encryption import NO_ENCRYPTION, OPERATOR_TOKEN, TOKEN_SECRET, SecretCipher
from storage.errors import DatabaseRefused
from storage.events.audit_log import record_act
from storage.postgres.pool import Connection, Pool

SECRET_BYTES = 48

GET_INSTANCE = "SELECT token_secret, operator_token FROM instance"

SET_FOR_USERS = "UPDATE instance SET token_secret = coalesce(token_secret, $1) RETURNING token_secret"

SET_FOR_OPERATORS = """
UPDATE instance SET operator_token = coalesce(operator_token, $1) RETURNING operator_token
"""

GET_EXPORTED = "SELECT spans_exported_until FROM instance"

# A node that no longer does the chores may still be at it.
SET_EXPORTED = "UPDATE instance SET spans_exported_until = greatest(spans_exported_until, $1)"

# The first pause counts until it ends. The reason stays, for the entry of the end.
SET_PAUSED = """
UPDATE instance SET paused_at = CASE WHEN $2 <> '' THEN $1::timestamptz END,
                    paused_because = coalesce(nullif($2, ''), paused_because)
WHERE (paused_at IS NULL) = ($2 <> '') RETURNING paused_because
"""

# A lock on the row is no fault: then the probe does without the update.
PROBE_UPDATE = """
UPDATE instance SET epoch = epoch
WHERE singleton = (SELECT singleton FROM instance FOR NO KEY UPDATE SKIP LOCKED)
"""

# Sorting more than fits in memory takes some blocks of the disk, which an update of one row does not.
LIMIT_MEMORY = "SET LOCAL work_mem = '64kB'"
PROBE_DISK = """
SELECT max(digest)
FROM (SELECT md5(n::text) AS digest FROM generate_series(1, 4000) AS n ORDER BY 1) AS sorted
"""


class Instance:
    """Secrets that are generated at the first read and never change after that, and a row to write to.

    One that cannot be decrypted raises SecretUnreadable, and is not replaced.
    """

    def __init__(self, pool: Pool, cipher: SecretCipher = NO_ENCRYPTION) -> None:
        self._pool = pool
        self._cipher = cipher
        # Of this process: spans that were exported and refused, runs skipped, attempts failed.
        self.span_exports = Counter[str](sent=0, refused=0, skipped=0, failed=0)

    async def spans_exported_until(self) -> int | None:
        """Return the id of the last event that the export of spans has done; None before the first."""
        event_id: int | None = await self._pool.fetchval(GET_EXPORTED)
        return event_id

    async def set_spans_exported(self, event_id: int) -> None:
        await self._pool.execute(SET_EXPORTED, event_id)

    async def token_secret(self) -> str:
        """Return the secret that signs user tokens if the configuration has none."""
        return await self._secret("token_secret", SET_FOR_USERS, TOKEN_SECRET)

    async def operator_token(self) -> str:
        """Return the token that operators present if the configuration has none."""
        return await self._secret("operator_token", SET_FOR_OPERATORS, OPERATOR_TOKEN)

    async def set_paused(self, now: datetime, because: str) -> None:
        """Let nothing start and nothing be sent. `because` completes a sentence; "" ends the pause."""
        async with self._pool.transaction() as connection:
            reason = await connection.fetchval(SET_PAUSED, now, because)
            if reason is not None:
                await record_act(connection, "paused" if because else "unpaused", now, because=reason)

    async def probe_write(self) -> None:
        """Commit a write that changes nothing. Raise a StorageError if the database takes no writes."""
        async with self._pool.spare() as connection, connection.transaction():
            await connection.execute(PROBE_UPDATE)
            await connection.execute(LIMIT_MEMORY)
            await connection.execute(PROBE_DISK)

    async def _secret(self, column: str, set_if_null: str, place: str) -> str:
        row = await self._pool.fetchrow(GET_INSTANCE)
        if row is None or row[column] is None:
            secret = self._cipher.encrypt(secrets.token_urlsafe(SECRET_BYTES), place)
            row = await self._pool.fetchrow(set_if_null, secret)
        if row is None:
            raise RuntimeError(
                "the table instance has no row; the migrations insert it: restore the database"
            )
        return self._cipher.decrypt(row[column], place)


async def stored_operator_token(connection: Connection, cipher: SecretCipher) -> str | None:
    """Return the token that operators present; None if there is none yet."""
    row = await connection.fetchrow(GET_INSTANCE)
    stored = row and row["operator_token"]
    return cipher.decrypt(stored, OPERATOR_TOKEN) if stored else None


LIST_KEYS = "SELECT id FROM encryption_key ORDER BY created_at, id"

# In a new installation nothing is stored in clear yet, so there is nothing to rotate.
INSERT_KEYS = """
INSERT INTO encryption_key (id, created_at, rotated_at)
SELECT $1, $2::timestamptz, CASE WHEN token_secret IS NULL AND operator_token IS NULL
    AND NOT EXISTS (SELECT FROM organization) THEN $2::timestamptz END
FROM instance
ON CONFLICT DO NOTHING
"""

IS_ROTATED = "SELECT rotated_at IS NOT NULL FROM encryption_key WHERE id = $1"

RETIRE_KEYS = """
WITH rotated AS (UPDATE encryption_key SET rotated_at = $3 WHERE id = $1)
DELETE FROM encryption_key WHERE id = ANY ($2::text[])
"""


class EncryptionKeys:
    """The table `encryption_key`."""

    def __init__(self, database: "Pool | Connection") -> None:
        self._database = database

    async def list_in_use(self) -> list[str]:
        """List the ids of the keys under which something may be stored, the oldest first."""
        return [row["id"] for row in await self._database.fetch(LIST_KEYS)]

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
        await self._database.execute(INSERT_KEYS, key_id, now)

    async def is_rotated(self, key_id: str) -> bool:
        """Return whether every secret that was stored before this key has been encrypted with it."""
        return bool(await self._database.fetchval(IS_ROTATED, key_id))

    async def retire(self, rotated_id: str, old_ids: Collection[str], now: datetime) -> None:
        """Record that every secret is encrypted with the rotated key, and none with the old ones."""
        await self._database.execute(RETIRE_KEYS, rotated_id, old_ids, now)
