"""A failover to a standby of PostgreSQL and back, under a running service whose URL names both servers."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest

from tests.acceptance.client import sign_up
from tests.acceptance.process import Launch
from tests.acceptance.services import Services
from tests.conftest import memory_or_none
from tests.crash.faults import END_SERVICE_CONNECTIONS, end_connections
from tests.crash.load import Load
from tests.crash.recording import all_is_kept
from tests.crash.replication import ReplicatedPostgres, execute, replicated_postgres
from tests.postgres import url_of

pytestmark = pytest.mark.xdist_group("replicated postgres")

WRITES = 40


@pytest.fixture(scope="module")
def servers() -> Iterator[ReplicatedPostgres]:
    directory = Path(tempfile.mkdtemp(prefix="hostsvc-tests-", dir=memory_or_none()))
    directory.chmod(0o755)
    with replicated_postgres(directory) as servers:
        yield servers
    shutil.rmtree(directory)


@pytest.fixture
def database(servers: ReplicatedPostgres) -> str:
    """Create a database on both servers, and return its name."""
    servers.ensure_standby()
    name = f"test_{uuid4().hex}"
    execute(servers.primary_url, f"CREATE DATABASE {name}")
    return name


@pytest.fixture
async def replicated_services(
    directory: Path, servers: ReplicatedPostgres, database: str, launch: Launch
) -> AsyncIterator[Services]:
    services = Services(directory, {"url": servers.both_urls(url_of(servers.primary_url, database))}, launch)
    yield services
    services.database = {"url": url_of(servers.primary_url, database)}
    await services.close()


async def fail_over(servers: ReplicatedPostgres, load: Load) -> timedelta:
    """Fail over, and return how long until the load goes on as before."""
    began = datetime.now(UTC)
    await asyncio.to_thread(servers.fail_over)
    await load.acknowledged(WRITES)
    return datetime.now(UTC) - began


async def test_service_writes_again_after_failover_and_back(
    replicated_services: Services, session: aiohttp.ClientSession, servers: ReplicatedPostgres, database: str
) -> None:
    service = await replicated_services.start()
    load = Load(await sign_up(session, service.url), seed=31)
    async with load.going_on():
        await load.acknowledged(WRITES)
        there = await fail_over(servers, load)
        await asyncio.to_thread(servers.ensure_standby)  # it stands first in the URL
        await end_connections(url_of(servers.primary_url, database), END_SERVICE_CONNECTIONS)
        await load.acknowledged(WRITES)
        back = await fail_over(servers, load)
    replicated_services.database = {"url": url_of(servers.primary_url, database)}
    await all_is_kept(load, replicated_services, standstill=max(there, back))


async def test_two_nodes_go_on_after_failover(
    replicated_services: Services, session: aiohttp.ClientSession, servers: ReplicatedPostgres, database: str
) -> None:
    nodes = [await replicated_services.start() for _ in range(2)]
    load = Load(await sign_up(session, nodes[0].url), seed=32, spread=[node.url for node in nodes])
    async with load.going_on():
        await load.acknowledged(WRITES)
        standstill = await fail_over(servers, load)
        await load.acknowledged(WRITES)
    replicated_services.database = {"url": url_of(servers.primary_url, database)}
    await all_is_kept(load, replicated_services, standstill)
    assert not any("node condemned" in node.log() for node in nodes)
