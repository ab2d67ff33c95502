"""Shared fixtures: a PostgreSQL server for the session, and a database on it for each test that needs one."""

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import closing, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

import hypothesis
import psycopg2
import pytest
from psycopg2.extensions import ISOLATION_LEVEL_AUTOCOMMIT

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.postgres.migrations import migrate
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from tests.acceptance.process import Launch, launch_fresh
from tests.cited_tests import cited_tests
from tests.forked_processes import ForkServer
from tests.nodes import NODES
from tests.paths import DOCS, ROOT
from tests.postgres import TestServer

# Folders that `make test` leaves out, but for tests marked as `everyday`: they start processes and browsers.
FOLDER_MARKS = {
    "acceptance": pytest.mark.slow,
    "attack": pytest.mark.slow,
    "console": pytest.mark.console,
    "crash": pytest.mark.slow,
}
HUNG_PART_OF_TIMEOUT = 0.75
CITING_DOCUMENTS = (ROOT / "README.md", DOCS / "invariants.md", DOCS / "security.md")
MEMORY = Path("/dev/shm")  # noqa: S108 -- a directory of our own is made in it
MIN_FREE_BYTES = 4 << 30


# Without a deadline, as test machines are busy; the same examples every day, new ones in `make test-slow`.
hypothesis.settings.register_profile("everyday", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("random", deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("everyday")


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage while tests are collected: nearly all that is made then stays."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow folders, and run those that measure real time one after the other.

    Leave those out that hold with a single node only, if there are several.
    """
    for item in items:
        if NODES > 1 and item.get_closest_marker("one_node") is not None:
            item.add_marker(pytest.mark.skip("it holds with one node"))
        mark = FOLDER_MARKS.get(item.nodeid.split("/", 2)[1])
        if mark is not None and item.get_closest_marker("everyday") is None:
            item.add_marker(mark)
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.slow)
        if (
            item.get_closest_marker("real_time") is not None
            and item.get_closest_marker("xdist_group") is None
        ):
            item.add_marker(pytest.mark.xdist_group("real time"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that hangs. If that does not end it, faulthandler ends its worker a little later."""
    seconds = float(item.config.getini("faulthandler_timeout")) * HUNG_PART_OF_TIMEOUT
    signal.signal(signal.SIGALRM, fail_hung_test)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def fail_hung_test(_signal: int, _frame: FrameType | None) -> None:
    """Interrupt whatever the main thread waits for, and say where each asyncio task waits."""
    stacks = StringIO()
    with suppress(RuntimeError):  # no loop is running
        for task in asyncio.all_tasks():
            task.print_stack(file=stacks)
    pytest.fail(f"the test hangs\n{stacks.getvalue()}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a skipped test that a document cites, in the run of CI that must skip none."""
    report = yield
    if report.skipped and "HOSTSVC_TEST_CITED" in os.environ:
        path, name = item.path.relative_to(ROOT).as_posix(), getattr(item, "originalname", item.name)
        if not cited_by_documents().isdisjoint({(path, name), (path, "")}):
            report.outcome, report.longrepr = "failed", f"cited by a document, and skipped: {report.longrepr}"
    return report


@cache
def cited_by_documents() -> set[tuple[str, str]]:
    """Return the path and name of each test that a document cites; the name is blank for a whole file."""
    return set().union(*(cited_tests(document.read_text()) for document in CITING_DOCUMENTS))


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
        url = server.start()
        leave_statistics_to_tests(url)
        yield url
    finally:
        server.stop()
        shutil.rmtree(data_dir)


def leave_statistics_to_tests(url: str) -> None:
    """Turn autovacuum off: plans must not depend on when it comes by."""
    with closing(psycopg2.connect(url)) as connection:
        connection.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
        with connection.cursor() as cursor:
            cursor.execute("ALTER SYSTEM SET autovacuum = off")
            cursor.execute("SELECT pg_reload_conf()")


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
def database_url(
    request: pytest.FixtureRequest, postgres_server: TestServer, template_database: str
) -> Iterator[str]:
    """A database with the current schema and no rows, which one test after another uses."""
    if request.node.get_closest_marker("own_database") is None:
        yield postgres_server.emptied_database(template_database)
        return
    with postgres_server.database(template_database) as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """A pool on the test's database that leads nobody."""
    async with open_pool(DatabaseSettings(url=database_url), node=None) as pool:
        yield pool
