"""Fixtures of the crash tests: services to kill, and a database server that may be killed as well."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import directory, services, session
from tests.acceptance.process import Launch
from tests.acceptance.services import Services
from tests.crash.faults import OwnPostgres, killable_postgres
from tests.postgres import TestServer

__all__ = ["directory", "services", "session"]


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[OwnPostgres]:
    with killable_postgres() as postgres:
        yield postgres


@pytest.fixture
def own_database_url(own_postgres: OwnPostgres) -> Iterator[str]:
    """Create a database without a schema on a server that the test may kill."""
    server = TestServer(own_postgres.url)
    with server.database() as url:
        server.close()
        yield url


@pytest.fixture
async def own_services(directory: Path, own_database_url: str, launch: Launch) -> AsyncIterator[Services]:
    services = Services(directory, {"url": own_database_url}, launch)
    yield services
    await services.close()
