"""Services to talk to: each test starts its own, on a database of its own."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from tests.acceptance.services import Services


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where a test's services run. Not pytest's own: a server started by root may not pass through that."""
    path = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def services(directory: Path, database_url: str) -> AsyncIterator[Services]:
    """Services on a database that others look after."""
    services = Services(directory, {"url": database_url})
    yield services
    await services.close()


@pytest.fixture
async def embedded_services(directory: Path) -> AsyncIterator[Services]:
    """Services that bring their own PostgreSQL."""
    data_dir = directory / "data"
    services = Services(directory, {"data_dir": str(data_dir)})
    yield services
    await services.close()
    await asyncio.to_thread(_stop_postgres, data_dir)


def _stop_postgres(data_dir: Path) -> None:
    """End the server that a killed service left behind."""
    server = EmbeddedPostgres(data_dir)
    server.start()
    server.stop()
