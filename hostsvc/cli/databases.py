"""The configured database, opened for one command, whether or not the service is running on it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from hostsvc.config import Config
from hostsvc.embedded_postgres import embedded_postgres
from storage.errors import DatabaseRefused
from storage.identity.instance import Instance
from storage.postgres.migrations import check, migrate, read_migrations, refuse_unsafe
from storage.postgres.pool import Pool, open_pool
from supervisors.clock import SystemClock


@asynccontextmanager
async def open_database(config: Config) -> AsyncIterator[str]:
    """Yield the URL of the database. The embedded one runs at least until the block ends.

    Raise DatabaseRefused if its settings are unsafe.
    """
    async with AsyncExitStack() as stack:
        url = config.database.url or await stack.enter_async_context(
            embedded_postgres(config.database.data_dir, SystemClock())
        )
        await refuse_unsafe(url)
        yield url


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
        if await _is_empty(url):
            await migrate(url)
        async with open_pool(config.database.pool_settings(url), epoch=None) as pool:
            return await Instance(pool).operator_token()


async def _is_empty(url: str) -> bool:
    # Only an empty database is migrated: an older schema has the token's table, too, and stays as it is.
    return len(await check(url)) == len(read_migrations())
