"""The single row about this installation, with the secrets that it generated."""

import secrets

from storage.postgres.pool import Pool

SECRET_BYTES = 48

GET = "SELECT token_secret, operator_token FROM instance"

SET_FOR_USERS = "UPDATE instance SET token_secret = coalesce(token_secret, $1) RETURNING token_secret"

SET_FOR_OPERATORS = """
UPDATE instance SET operator_token = coalesce(operator_token, $1) RETURNING operator_token
"""


class Instance:
    """Secrets that are generated at the first read and never change after that."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def token_secret(self) -> str:
        """Return the secret that signs user tokens if the configuration has none."""
        return await self._secret("token_secret", SET_FOR_USERS)

    async def operator_token(self) -> str:
        """Return the token that operators present if the configuration has none."""
        return await self._secret("operator_token", SET_FOR_OPERATORS)

    async def _secret(self, column: str, set_if_null: str) -> str:
        row = await self._pool.fetchrow(GET)
        if row is None or row[column] is None:
            row = await self._pool.fetchrow(set_if_null, secrets.token_urlsafe(SECRET_BYTES))
        if row is None:
            raise RuntimeError(
                "the table instance has no row; the migrations insert it: restore the database"
            )
        return str(row[column])
