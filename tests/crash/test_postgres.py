"""PostgreSQL killed, restarted, or full, under a service that goes on."""

import asyncio
from contextlib import ExitStack, closing

import aiohttp
import psycopg2
import pytest

from tests.acceptance.client import sign_up
from tests.acceptance.services import Services
from tests.crash.faults import END_POOL_CONNECTIONS, OwnPostgres
from tests.crash.load import Load
from tests.crash.recording import all_is_kept

pytestmark = pytest.mark.xdist_group("own postgres")  # one server, which they kill under each other

CYCLES = 3
WRITES = 40


async def test_kill_9_of_postgresql_is_survived_by_the_service(
    own_services: Services, session: aiohttp.ClientSession, own_postgres: OwnPostgres, cycles: int
) -> None:
    service = await own_services.start()
    load = Load(await sign_up(session, service.url), seed=1)
    async with load.going_on():
        for _ in range(max(CYCLES, cycles // 10)):
            await load.acknowledged(WRITES)
            await asyncio.to_thread(own_postgres.kill_and_restart)
        await load.acknowledged(WRITES)
    await all_is_kept(load, own_services)


async def test_kill_9_of_service_and_postgresql_takes_only_a_start_of_both(
    own_services: Services, session: aiohttp.ClientSession, own_postgres: OwnPostgres, cycles: int
) -> None:
    service = await own_services.start()
    load = Load(await sign_up(session, service.url), seed=2)
    async with load.going_on():
        for _ in range(max(CYCLES, cycles // 10)):
            await load.acknowledged(WRITES)
            own_postgres.kill()
            await service.kill()
            await asyncio.to_thread(own_postgres.restart)
            service = await own_services.start()
            load.urls = [service.url]
    await all_is_kept(load, own_services)


async def test_a_restart_of_postgresql_leaves_one_leader_of_two(
    own_services: Services, session: aiohttp.ClientSession, own_postgres: OwnPostgres
) -> None:
    leader = await own_services.start()
    standby = await own_services.spawn()
    load = Load(await sign_up(session, leader.url), seed=3)
    load.urls.append(await standby.standing_by())
    async with load.going_on():
        await load.acknowledged(WRITES)
        await asyncio.to_thread(own_postgres.restart)
        await load.acknowledged(WRITES)
    await all_is_kept(load, own_services)


async def test_a_server_without_a_free_connection_costs_time_and_nothing_else(
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
            _take_all_connections(others, own_database_url)  # before the service has them back
            await load.refused(20)
        await load.acknowledged(WRITES)
    await all_is_kept(load, own_services)


def _take_all_connections(others: ExitStack, database_url: str) -> None:
    while True:
        try:
            others.enter_context(closing(psycopg2.connect(database_url)))
        except psycopg2.OperationalError:
            return
