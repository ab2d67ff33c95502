"""Three nodes on one database: any may be killed, frozen or cut off, and nothing is lost or doubled.

How soon the others act is measured by `tests.crash.node_figures`, as it depends on the machine.
"""

import asyncio
import os
import signal
from random import Random

import aiohttp
import pytest

from tests.acceptance.client import eventually, sign_up
from tests.acceptance.log_lines import line_of, lines_of
from tests.acceptance.services import Services
from tests.crash.cluster import NODES, STATE, node_id, under_load
from tests.crash.cutting_proxy import BlockingProxy
from tests.crash.cycles import CYCLES, POSTGRES_CYCLES
from tests.crash.faults import (
    END_BEAT_CONNECTIONS,
    END_POOL_CONNECTIONS,
    OwnPostgres,
    end_connections,
    stopped,
)
from tests.crash.load import OFFLINE, Load
from tests.crash.recording import all_is_kept
from tests.processes import children, is_alive

FOUND_DEAD = 2  # the exit code of a node that others have found dead


async def test_repeated_kill_9_of_any_node_loses_nothing(
    services: Services, session: aiohttp.ClientSession
) -> None:
    random = Random(CYCLES)  # noqa: S311
    async with under_load(services, session, seed=61, runs={"max_concurrent": 4}) as cluster:
        for _ in range(CYCLES):
            victim = random.randrange(NODES)
            await cluster.load.acknowledged(random.randint(10, 80))
            await cluster.kill(victim)
            if random.random() < 0.5:  # otherwise the next node starts before the last one is buried
                await cluster.all_attended()
            await cluster.replace(victim)


@pytest.mark.long
async def test_kill_9_of_all_nodes_but_one_loses_nothing(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with under_load(services, session, seed=62) as cluster:
        await cluster.kill(0, 2)
        await cluster.all_attended()
        await cluster.replace(0, 2)


@pytest.mark.long
async def test_rolling_restart_condemns_no_node_and_loses_nothing(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with under_load(services, session, seed=68) as cluster:
        for place, old in enumerate(list(cluster.nodes)):
            await cluster.replace(place)
            await cluster.load.acknowledged(30)  # so that nobody waits for an answer of the old one
            old.terminate()
            assert await old.exit_code() == 0
            assert await cluster.query(STATE, await node_id(old)) == [("dead",)]
        assert not cluster.condemned()


async def test_frozen_node_is_replaced_and_ends_without_a_write(
    services: Services, session: aiohttp.ClientSession
) -> None:
    async with under_load(services, session, seed=63) as cluster:
        frozen = cluster.nodes[1]
        number = await node_id(frozen)
        with stopped(frozen.pid):
            await cluster.until_dead(number)
            await cluster.all_attended()
            since = len(frozen.log())
        assert await frozen.exit_code() == FOUND_DEAD
        assert "run ended" not in [line["event"] for line in lines_of(frozen, since)]
        await cluster.replace(1)


@pytest.mark.long
async def test_ended_connections_of_all_nodes_condemn_none(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    async with under_load(services, session, seed=64) as cluster:
        for _ in range(CYCLES):
            assert await end_connections(database_url, END_BEAT_CONNECTIONS) == NODES
            await cluster.load.acknowledged(30)
            assert await end_connections(database_url, END_POOL_CONNECTIONS) >= NODES
            await cluster.load.acknowledged(30)
        assert not cluster.condemned()


async def test_node_cut_off_from_postgresql_is_replaced_and_ends(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    proxy = BlockingProxy(database_url)
    async with proxy.listening() as url, under_load(services, session, seed=65) as cluster:
        cut = await services.start(**cluster.sections, database={"url": url})
        cluster.load.urls.append(cut.url)
        await cluster.load.acknowledged(50)
        with proxy.blocked():
            await asyncio.sleep(2.0)  # it begins nothing more after 1.5 s
        await cluster.load.acknowledged(50)
        assert not cluster.condemned()
        with proxy.blocked():
            await cluster.until_dead(await node_id(cut))
            await cluster.all_attended()
        assert await cut.exit_code() == FOUND_DEAD
        cluster.load.urls.remove(cut.url)


@pytest.mark.xdist_group("own postgres")
async def test_kill_9_and_restart_of_postgresql_condemn_no_node(
    own_services: Services, session: aiohttp.ClientSession, own_postgres: OwnPostgres
) -> None:
    async with under_load(own_services, session, seed=66, models=[OFFLINE]) as cluster:
        for _ in range(POSTGRES_CYCLES):
            await asyncio.to_thread(own_postgres.kill_and_restart)
            await cluster.load.acknowledged(100)
            await asyncio.to_thread(own_postgres.restart)
            await cluster.load.acknowledged(100)
        assert not cluster.condemned()


async def test_workers_of_a_killed_parent_end_and_lose_nothing(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.spawn("--workers", str(NODES))
    load = Load(await sign_up(session, await service.ready()), seed=67)
    async with load.going_on():
        await load.acknowledged(100)
        workers = children(service.pid)
        assert len(workers) == NODES
        await service.kill()

        async def look() -> bool | None:
            return None if any(map(is_alive, workers)) else True

        await eventually(look, "the workers to end")
        service = await services.spawn("--workers", str(NODES))
        load.urls = [await service.ready()]
        os.kill(children(service.pid)[-1], signal.SIGKILL)
        await line_of(service, event="worker ended")
        await load.acknowledged(100)
    await all_is_kept(load, services)
