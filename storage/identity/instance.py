"""The one row about this installation: the secrets it made for itself."""

import secrets

from storage.postgres.pool import Pool

SECRET_BYTES = 48

GET = "SELECT token_secret, operator_token FROM instance"

KEEP_FOR_USERS = "UPDATE instance SET token_secret = coalesce(token_secret, $1) RETURNING token_secret"

KEEP_FOR_OPERATORS = """
UPDATE instance SET operator_token = coalesce(operator_token, $1) RETURNING operator_token
"""


class Instance:
    """Secrets that are made when first needed and kept for good, whoever asks first."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def token_secret(self) -> str:
        """What signs user tokens where the configuration gives no secret."""
        return await self._secret("token_secret", KEEP_FOR_USERS)

    async def operator_token(self) -> str:
        """What operators present where the configuration gives no token."""
        return await self._secret("operator_token", KEEP_FOR_OPERATORS)

    async def _secret(self, column: str, keep: str) -> str:
        row = await self._pool.fetchrow(GET)
        if row is None or row[column] is None:
            row = await self._pool.fetchrow(keep, secrets.token_urlsafe(SECRET_BYTES))
        if row is None:
            raise RuntimeError("the table instance has lost its row")
        return str(row[column])
