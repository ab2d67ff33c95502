"""PostgreSQL is killed, restarted or full under a running service."""

import asyncio
from contextlib import ExitStack, closing

import aiohttp
import psycopg2
import pytest

from tests.acceptance.client import sign_up
from tests.acceptance.services import Services
from tests.crash.cycles import POSTGRES_CYCLES
from tests.crash.faults import END_POOL_CONNECTIONS, OwnPostgres
from tests.crash.load import Load
from tests.crash.recording import all_is_kept

pytestmark = pytest.mark.xdist_group("own postgres")  # they share one server, and kill it

WRITES = 40


async def test_service_survives_kill_9_of_postgresql(
    own_services: Services, session: aiohttp.ClientSession, own_postgres: OwnPostgres
) -> None:
    service = await own_services.start()
    load = Load(await sign_up(session, service.url), seed=1)
    async with load.going_on():
        for _ in range(POSTGRES_CYCLES):
            await load.acknowledged(WRITES)
            await asyncio.to_thread(own_postgres.kill_and_restart)
        await load.acknowledged(WRITES)
    await all_is_kept(load, own_services)


async def test_service_and_postgresql_recover_from_kill_9_by_starting(
    own_services: Services, session: aiohttp.ClientSession, own_postgres: OwnPostgres
) -> None:
    service = await own_services.start()
    load = Load(await sign_up(session, service.url), seed=2)
    async with load.going_on():
        for _ in range(POSTGRES_CYCLES):
            await load.acknowledged(WRITES)
            own_postgres.kill()
            await service.kill()
            await asyncio.to_thread(own_postgres.restart)
            service = await own_services.start()
            load.urls = [service.url]
    await all_is_kept(load, own_services)


async def test_full_postgresql_delays_writes_and_loses_none(
    own_services: Services, session: aiohttp.ClientSession, own_database_url: str
) -> None:
    service = await own_services.start()
    load = Load(await sign_up(session, service.url), seed=4)
    async with load.going_on():
        await load.acknowledged(WRITES)
        with ExitStack() as others:
            administrator = others.enter_context(closing(psycopg2.connect(own_database_url)))
            _take_all_connections(others, own_database_url)
            administrator.cursor().execute(END_POOL_CONNECTIONS)
            _take_all_connections(others, own_database_url)  # before the service reconnects
            await load.refused(20)
        await load.acknowledged(WRITES)
    await all_is_kept(load, own_services)


def _take_all_connections(others: ExitStack, database_url: str) -> None:
    while True:
        try:
            others.enter_context(closing(psycopg2.connect(database_url)))
        except psycopg2.OperationalError:
            return
