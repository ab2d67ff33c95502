"""The single row about this installation, with the secrets that it generated."""

import secrets

from storage.encryption import NO_ENCRYPTION, OPERATOR_TOKEN, TOKEN_SECRET, SecretCipher
from storage.postgres.pool import Pool

SECRET_BYTES = 48

GET = "SELECT token_secret, operator_token FROM instance"

SET_FOR_USERS = "UPDATE instance SET token_secret = coalesce(token_secret, $1) RETURNING token_secret"

SET_FOR_OPERATORS = """
UPDATE instance SET operator_token = coalesce(operator_token, $1) RETURNING operator_token
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

    async def token_secret(self) -> str:
        """Return the secret that signs user tokens if the configuration has none."""
        return await self._secret("token_secret", SET_FOR_USERS, TOKEN_SECRET)

    async def operator_token(self) -> str:
        """Return the token that operators present if the configuration has none."""
        return await self._secret("operator_token", SET_FOR_OPERATORS, OPERATOR_TOKEN)

    async def probe_write(self) -> None:
        """Commit a write that changes nothing. Raise a StorageError if the database takes no writes."""
        async with self._pool.spare() as connection, connection.transaction():
            await connection.execute(PROBE_UPDATE)
            await connection.execute(LIMIT_MEMORY)
            await connection.execute(PROBE_DISK)

    async def _secret(self, column: str, set_if_null: str, place: str) -> str:
        row = await self._pool.fetchrow(GET)
        if row is None or row[column] is None:
            secret = self._cipher.encrypt(secrets.token_urlsafe(SECRET_BYTES), place)
            row = await self._pool.fetchrow(set_if_null, secret)
        if row is None:
            raise RuntimeError(
                "the table instance has no row; the migrations insert it: restore the database"
            )
        return self._cipher.decrypt(row[column], place)
