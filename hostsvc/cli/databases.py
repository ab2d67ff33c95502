"""The configured database, opened for one command, whether or not the service is running on it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hostsvc.config import Config
from hostsvc.service import open_database
from storage.errors import DatabaseRefused
from storage.identity.instance import Instance
from storage.postgres.migrations import check, migrate, read_migrations
from storage.postgres.pool import Pool, open_pool


@asynccontextmanager
async def open_current_database(config: Config) -> AsyncIterator[Pool]:
    """Yield a pool on the database. Raise DatabaseRefused if its schema is older than this version."""
    async with open_database(config) as url:
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
        if len(await check(url)) == len(read_migrations()):
            await migrate(url)
        async with open_pool(config.database.pool_settings(url), epoch=None) as pool:
            return await Instance(pool).operator_token()
