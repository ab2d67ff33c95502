"""Connections that break, block or run out, and processes that stand still."""

import asyncio
from contextlib import ExitStack

import aiohttp
import pytest

from tests.acceptance.client import sign_up
from tests.acceptance.locks import LOCK_AGENT, locked_row
from tests.acceptance.services import Services
from tests.crash.cycles import CYCLES
from tests.crash.faults import (
    END_SERVICE_CONNECTIONS,
    end_connections,
    stopped,
)
from tests.crash.load import Load
from tests.crash.recording import all_is_kept

STOPPED_SECONDS = 5.0


async def test_storm_of_ended_connections_loses_no_write(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start()
    load = Load(await sign_up(session, service.url), seed=11)
    async with load.going_on():
        for _ in range(CYCLES):
            await load.acknowledged(15)
            assert await end_connections(database_url, END_SERVICE_CONNECTIONS) > 0
        await load.acknowledged(15)
    await all_is_kept(load, services)


async def test_exhausted_pool_refuses_writes_and_loses_none(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    busy = [await client.create_agent(name=f"Busy {number}") for number in range(3)]
    service.terminate()
    assert await service.exit_code() == 0
    service = await services.start(database={"pool_size": 1, "acquire_timeout_seconds": 0.3})
    client = client.at(service.url)
    load = Load(client, seed=13)
    async with load.going_on():
        await load.acknowledged(30)
        with ExitStack() as held:
            for agent in busy:
                held.enter_context(locked_row(database_url, agent, LOCK_AGENT))
            paths = (f"/api/cloud/agents/{agent}/tag/" for agent in busy)
            waiting = [asyncio.create_task(client.post(path, tags=["busy"])) for path in paths]
            await load.refused(10)
        await asyncio.gather(*waiting, return_exceptions=True)  # their rows may stay locked for too long
        await load.acknowledged(30)
    service.terminate()
    assert await service.exit_code() == 0
    load.urls = [(await services.start()).url]  # it refuses no reader, even on a slow machine
    await all_is_kept(load, services)


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another node"])
async def test_shortly_stopped_node_goes_on(
    services: Services, session: aiohttp.ClientSession, others: int
) -> None:
    service = await services.start()
    load = Load(await sign_up(session, service.url), seed=14 + others)
    load.urls += [(await services.start()).url for _ in range(others)]
    async with load.going_on():
        await load.acknowledged(30)
        with stopped(service.pid):
            await asyncio.sleep(STOPPED_SECONDS)
        await load.acknowledged(30)
    await all_is_kept(load, services)
