"""The configured database, opened for one command, whether or not the service is running on it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hostsvc.config import Config
from hostsvc.secret_cipher import open_cipher
from hostsvc.service import open_database
from storage.encryption import NO_ENCRYPTION
from storage.errors import DatabaseRefused
from storage.identity.instance import Instance
from storage.postgres.migrations import check, migrate, read_migrations
from storage.postgres.pool import Pool, open_pool


@asynccontextmanager
async def open_current_database(config: Config) -> AsyncIterator[Pool]:
    """Yield a pool on the database. Raise DatabaseRefused if its schema is older than this version."""
    async with open_database(config) as url, open_current_pool(config, url) as pool:
        yield pool


@asynccontextmanager
async def open_current_pool(config: Config, url: str) -> AsyncIterator[Pool]:
    """Yield a pool on the open database at `url`, like `open_current_database`."""
    if await check(url):
        raise DatabaseRefused("the database has an older schema: run hostsvc migrate first")
    async with open_pool(config.database.pool_settings(url), epoch=None) as pool:
        yield pool


async def operator_token(config: Config) -> str:
    """Return the configured operator token, or else the stored one, which is created if missing."""
    if config.operator.token:
        return config.operator.token
    async with open_database(config) as url:
        # Only an empty database is migrated: an older schema has the token's table, too, and stays as it is.
        pending = len(await check(url))
        if pending == len(read_migrations()):
            await migrate(url)
            pending = 0
        async with open_pool(config.database.pool_settings(url), epoch=None) as pool:
            # An older schema may lack the table of encryption keys; its secrets are in clear.
            keys = config.accounts.encryption_keys
            cipher = NO_ENCRYPTION if pending else await open_cipher(keys, pool)
            return await Instance(pool, cipher).operator_token()
