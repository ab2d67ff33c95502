"""Shared fixtures: a PostgreSQL for the session, and in it a database for each test that requests one."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.postgres.migrations import migrate
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from tests.postgres import TestServer

MEMORY = Path("/dev/shm")  # noqa: S108 -- a directory of our own is made in it
ENOUGH_MEMORY = 4 << 30


def memory_or_none() -> Path | None:
    """Return a file system in memory with room for a server, on which databases are much faster, or None.

    The crash tests that kill PostgreSQL itself keep their data on disk.
    """
    try:
        return MEMORY if shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY else None
    except OSError:
        return None


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Yield the URL of a server for test databases: HOSTSVC_TEST_DATABASE_URL, else one started here."""
    given = os.environ.get("HOSTSVC_TEST_DATABASE_URL")
    if given:
        yield given
        return
    # Not pytest's own directory: a server started by root could not pass through its parents.
    data_dir = Path(tempfile.mkdtemp(prefix="hostsvc-tests-", dir=memory_or_none()))
    server = EmbeddedPostgres(data_dir)
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(data_dir)


@pytest.fixture(scope="session")
def postgres_server(postgres_url: str) -> Iterator[TestServer]:
    server = TestServer(postgres_url)
    yield server
    server.close()


@pytest.fixture(scope="session")
def template_database(postgres_server: TestServer) -> Iterator[str]:
    """Yield the name of a database with all migrations applied, to be copied."""
    with postgres_server.database() as url:
        asyncio.run(migrate(url))
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture
def empty_database_url(postgres_server: TestServer) -> Iterator[str]:
    """Yield the URL of an empty database for this test alone."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def database_url(postgres_server: TestServer, template_database: str) -> Iterator[str]:
    """Yield the URL of a database with the current schema for this test alone."""
    with postgres_server.database(template_database) as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """Yield a pool on the test's database, without an epoch."""
    async with open_pool(DatabaseSettings(url=database_url), epoch=None) as pool:
        yield pool
