"""Shared fixtures: a PostgreSQL server for the session, and a database on it for each test that needs one."""

import asyncio
import gc
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
from tests.acceptance.process import Launch, launch_fresh
from tests.forked_processes import ForkServer
from tests.postgres import TestServer

MEMORY = Path("/dev/shm")  # noqa: S108 -- a directory of our own is made in it
MIN_FREE_BYTES = 4 << 30


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage while tests are collected: nearly all that is made then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt all that was imported and collected from garbage collections, which get much cheaper."""
    gc.enable()
    gc.collect()
    gc.freeze()


def memory_or_none() -> Path | None:
    """Return a file system in memory with room for a database server; None if there is none.

    Databases are much faster there. The crash tests that kill PostgreSQL itself use the disk.
    """
    try:
        return MEMORY if shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES else None
    except OSError:
        return None


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer | None]:
    """Fork services from a process that has imported them; None in `make test-all`, which starts new ones."""
    if "HOSTSVC_TEST_FRESH" in os.environ:
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="hostsvc-tests-") as directory,
        ForkServer(Path(directory)) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def launch(fork_server: ForkServer | None) -> Launch:
    """Return how a test starts its services."""
    return fork_server.launch if fork_server else launch_fresh


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The server to create databases on: that of HOSTSVC_TEST_DATABASE_URL, else one started here."""
    given = os.environ.get("HOSTSVC_TEST_DATABASE_URL")
    if given:
        yield given
        return
    # Not pytest's tmp_path: its directories cannot be entered by the account that runs PostgreSQL for root.
    data_dir = Path(tempfile.mkdtemp(prefix="hostsvc-tests-", dir=memory_or_none()))
    server = EmbeddedPostgres(data_dir)
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(data_dir)


@pytest.fixture(scope="session")
def postgres_server(postgres_url: str) -> Iterator[TestServer]:
    is_in_memory = "HOSTSVC_TEST_DATABASE_URL" not in os.environ and memory_or_none() is not None
    server = TestServer(postgres_url, "FILE_COPY" if is_in_memory else "WAL_LOG")
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
    """A database without a schema, for one test."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def database_url(postgres_server: TestServer, template_database: str) -> Iterator[str]:
    """A database with the current schema, for one test."""
    with postgres_server.database(template_database) as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """A pool on the test's database that leads nobody."""
    async with open_pool(DatabaseSettings(url=database_url), epoch=None) as pool:
        yield pool
