"""Clients of event streams whose connections are cut, and whose service is killed, miss nothing."""

import asyncio
from random import Random

import aiohttp
import aiopg

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.services import Services
from tests.crash.cutting_proxy import CuttingProxy
from tests.crash.cycles import CYCLES
from tests.crash.load import Load
from tests.crash.recording import all_is_kept
from tests.crash.stream_clients import EVENTS, Seen, StreamClient, browser_client, httpx_client

CUTS_PER_MINUTE = 100
KILL_AT = 5  # of the cuts of a minute
SECONDS = CYCLES

LOG = "SELECT id, type, id FROM event WHERE type <> 'audit' ORDER BY id"


async def test_clients_see_each_event_once_across_cuts_and_kills(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start()
    load = Load(await sign_up(session, service.url), seed=31)
    proxy, key = CuttingProxy(service.url, Random(CYCLES)), load.client.authorization  # noqa: S311
    async with (
        proxy.listening(),
        browser_client(proxy.url, key) as browser,
        httpx_client(proxy.url, key) as httpx,
    ):
        async with load.going_on():
            for number in range(SECONDS * CUTS_PER_MINUTE // 60):
                await asyncio.sleep(60 / CUTS_PER_MINUTE)
                if number % CUTS_PER_MINUTE == KILL_AT:
                    await service.kill()
                    service = await services.start()
                    load.urls = [service.url]
                    proxy.service_url = service.url
                await proxy.cut(EVENTS)
        await all_is_kept(load, services)
        log = await _log(services.database["url"])
        for client in (browser, httpx):
            await _has_seen(client, log)


async def _has_seen(client: StreamClient, log: list[Seen]) -> None:
    """Wait until the client has seen the last event, and fail unless it has seen each once and in order."""

    async def look() -> bool | None:
        seen = await client.seen()
        return True if seen and seen[-1][0] >= log[-1][0] else None

    await eventually(look, f"{client.name} to see the last of {len(log)} events")
    seen = await client.seen()
    differing = next((pair for pair in zip(seen, log, strict=False) if pair[0] != pair[1]), None)
    assert differing is None, f"{client.name} saw {differing[0]} instead of {differing[1]}"
    assert len(seen) == len(log), client.name


async def _log(database_url: str) -> list[Seen]:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(LOG)
        return list(await cursor.fetchall())
