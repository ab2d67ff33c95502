"""What tests share: a PostgreSQL for the session, and in it a database for each test that asks for one."""

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
    """A file system in memory with room for a database server, which makes databases much faster there.

    The crash tests that kill PostgreSQL itself have theirs on the disk.
    """
    try:
        return MEMORY if shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY else None
    except OSError:
        return None


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server on which databases may be made: that of HOSTSVC_TEST_DATABASE_URL, else one of our own."""
    given = os.environ.get("HOSTSVC_TEST_DATABASE_URL")
    if given:
        yield given
        return
    # Not pytest's own directory: it takes away the passage that a server started by root needs.
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
    """The name of a database with all migrations applied, to be copied."""
    with postgres_server.database() as url:
        asyncio.run(migrate(url))
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture
def empty_database_url(postgres_server: TestServer) -> Iterator[str]:
    """A database of this test's own without a schema."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def database_url(postgres_server: TestServer, template_database: str) -> Iterator[str]:
    """A database of this test's own with the schema of this version."""
    with postgres_server.database(template_database) as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """A pool on the test's database that leads nobody."""
    async with open_pool(DatabaseSettings(url=database_url), epoch=None) as pool:
        yield pool
