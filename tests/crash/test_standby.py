"""Two instances on one database: one serves, and the other takes over when it cannot."""

import asyncio
from time import perf_counter

import aiohttp

from hostsvc.service import REPLACED_SECONDS
from tests.acceptance.client import sign_up
from tests.acceptance.locks import locked_row
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services
from tests.crash.cycles import STANDBY_CYCLES
from tests.crash.faults import END_LEADER_CONNECTION, end_connections, stopped
from tests.crash.load import Load
from tests.crash.recording import all_is_kept

STOPPED_SECONDS = 40.0  # longer than every limit on waiting for the database
SLACK_SECONDS = 2.0  # until it notices, and for a loaded machine
DRAIN_SECONDS = 10.0  # granted to runs at the end of a service that still leads


async def test_standby_takes_over_from_each_killed_instance(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start()
    load = Load(await sign_up(session, service.url), seed=21)
    async with load.going_on():
        for _ in range(STANDBY_CYCLES):
            standby = await services.spawn()
            load.urls = [service.url, await standby.standing_by()]
            await load.acknowledged(30)
            await service.kill()
            await standby.ready()
            service = standby
    await all_is_kept(load, services)


async def test_one_instance_leads_after_leader_connection_breaks(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    leader, standby = await _two_instances(services)
    load = Load(await sign_up(session, leader.url), seed=22)
    load.urls.append(standby.url)
    async with load.going_on():
        await load.acknowledged(30)
        assert await end_connections(database_url, END_LEADER_CONNECTION) == 1
        await load.acknowledged(100)
    await all_is_kept(load, services)


async def test_replaced_instance_ends_at_once_with_its_runs(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    former, standby = await _two_instances(services)
    client = await sign_up(session, former.url)
    agent = await client.create_agent()
    note = await client.notify(agent, "By the way", priority="low")
    with locked_row(database_url, note["id"]):
        await client.post(f"/api/cloud/agents/{agent}/run/")
        with stopped(former.pid):
            assert await end_connections(database_url, END_LEADER_CONNECTION) == 1
            await standby.ready()
        assert await former.exit_code(within=DRAIN_SECONDS / 2) == 2
    runs = [await client.at(standby.url).ended_run(agent, number) for number in (1, 2)]
    assert [run["outcome"] for run in runs] == ["interrupted", "slept"]


async def test_instance_stopped_for_long_ends_soon_after_it_resumes(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    former, standby = await _two_instances(services)
    load = Load(await sign_up(session, former.url), seed=23)
    load.urls.append(standby.url)
    async with load.going_on():
        await load.acknowledged(30)
        with stopped(former.pid):
            assert await end_connections(database_url, END_LEADER_CONNECTION) == 1
            await standby.ready()
            await asyncio.sleep(STOPPED_SECONDS)
        resumed_at = perf_counter()
        assert await former.exit_code(within=DRAIN_SECONDS) == 2
        seconds = perf_counter() - resumed_at
        await load.acknowledged(30)
    assert seconds < REPLACED_SECONDS + SLACK_SECONDS, former.log()
    await all_is_kept(load, services)


async def _two_instances(services: Services) -> tuple[ServiceProcess, ServiceProcess]:
    leader = await services.start()
    standby = await services.spawn()
    await standby.standing_by()
    return leader, standby
