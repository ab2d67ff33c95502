"""Fixtures that start services: each test has its own processes on its own database."""

import asyncio
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from hostsvc.process_harness.programs import REMOVE
from tests.acceptance.process import Launch, launched_by
from tests.acceptance.services import Services

WITHOUT_LOOKS = """
from hostsvc.cli.commands import main
from supervisors.events import feed
from supervisors.maintenance import webhooks

feed.POLL_SECONDS = webhooks.SCAN_SECONDS = webhooks.RELOAD_SECONDS = 3600
main()
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """The directory of a test's services. pytest's tmp_path cannot be entered by PostgreSQL's account."""
    path = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    yield path
    # Checkouts are sealed: only root could remove them as they are.
    subprocess.run(["sh", "-c", REMOVE, "remove", str(path)], check=True)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def services(directory: Path, database_url: str, launch: Launch) -> AsyncIterator[Services]:
    """Services on the tests' PostgreSQL."""
    services = Services(directory, {"url": database_url}, launch)
    yield services
    await services.close()


@pytest.fixture
async def services_without_looks(directory: Path, database_url: str) -> AsyncIterator[Services]:
    """Services that find events and deliveries only if they are told of them: they look once an hour."""
    services = Services(directory, {"url": database_url}, launched_by("-c", WITHOUT_LOOKS))
    yield services
    await services.close()


@pytest.fixture
async def embedded_services(directory: Path, launch: Launch) -> AsyncIterator[Services]:
    """Services with their embedded PostgreSQL."""
    data_dir = directory / "data"
    services = Services(directory, {"data_dir": str(data_dir)}, launch)
    yield services
    await services.close()
    await asyncio.to_thread(_stop_postgres, data_dir)


def _stop_postgres(data_dir: Path) -> None:
    """Stop the server that a killed service left behind."""
    server = EmbeddedPostgres(data_dir)
    server.start()
    server.stop()
