"""Starts: how soon the service is ready, and which one of two leads."""

import asyncio
import resource
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import IO

import aiohttp
import pytest

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import Process, launch_fresh
from tests.acceptance.services import Services

STARTS = 3
LOOSE_LIMIT_SECONDS = 6.0  # 2 s on an idle machine


@pytest.fixture
async def fresh_services(directory: Path, database_url: str) -> AsyncIterator[Services]:
    """Services in new interpreters, whatever else is done to start them quickly."""
    services = Services(directory, {"url": database_url}, launch_fresh)
    yield services
    await services.close()


async def test_service_is_ready_soon_on_an_existing_database(
    fresh_services: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    took = [await _start_and_stop(fresh_services) for _ in range(STARTS)]
    with capsys.disabled():
        print(f"\nready {median(took):.2f} s after the start (median of {STARTS}: {took})")  # noqa: T201
    assert median(took) < LOOSE_LIMIT_SECONDS


@pytest.mark.everyday
async def test_second_service_stands_by_and_replaces_a_killed_leader(
    fresh_services: Services, session: aiohttp.ClientSession
) -> None:
    leader = await fresh_services.start()
    client = await sign_up(session, leader.url)
    agent = await client.create_agent(debounce_window_seconds=3600)
    note = await client.notify(agent, source="sms")
    standby = await fresh_services.spawn()
    other = client.at(await standby.standing_by())
    assert await other.status_of("/healthz") == 200
    for path in ("/readyz", "/status/", f"/api/cloud/agents/{agent}/", "/nowhere"):
        assert await other.status_of(path) == 503, path
    assert (await client.agent(agent))["status"] == "sleeping"

    await leader.kill()
    assert await standby.ready() == other.url
    assert await other.status_of("/readyz") == 200
    assert [each["id"] for each in await other.notifications(agent)] == [note["id"]]
    assert (await other.post(f"/api/cloud/agents/{agent}/run/"))["status"] == "started"
    assert (await other.ended_run(agent))["outcome"] == "slept"


async def test_standby_replaces_a_leader_that_shuts_down(
    services: Services, session: aiohttp.ClientSession
) -> None:
    leader = await services.start()
    client = await sign_up(session, leader.url)
    standby = await services.spawn()
    await standby.standing_by()
    leader.terminate()
    assert await leader.exit_code() == 0
    url = await standby.ready()
    assert await client.at(url).get("/api/cloud/agents/") == []


async def test_terminated_standby_exits_with_0(services: Services) -> None:
    await services.start()
    standby = await services.spawn()
    await standby.standing_by()
    standby.terminate()
    assert await standby.exit_code() == 0


async def test_service_raises_its_limit_of_descriptors(fresh_services: Services) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        service = await fresh_services.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert resource.prlimit(service.pid, resource.RLIMIT_NOFILE) == (min(hard, 65_536), hard)


@pytest.mark.everyday
async def test_service_starts_and_ends_without_stderr(directory: Path, database_url: str) -> None:
    services = Services(directory, {"url": database_url}, _launch_without_stderr)
    service = await services.start()
    service.terminate()
    assert await service.exit_code() == 0
    await services.close()


async def test_health_endpoints_need_no_credential(
    services: Services, session: aiohttp.ClientSession
) -> None:
    anybody = Client(session, (await services.start()).url)
    assert (await anybody.get("/healthz"))["status"] == "ok"
    assert (await anybody.get("/readyz"))["state"] == "ready"


async def _start_and_stop(services: Services) -> float:
    loop = asyncio.get_running_loop()
    started = loop.time()
    service = await services.start()
    took = loop.time() - started
    service.terminate()
    assert await service.exit_code() == 0
    return round(took, 2)


async def _launch_without_stderr(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], _: IO[bytes]
) -> Process:
    command = shlex.join([sys.executable, "-m", "hostsvc", *arguments])
    return await asyncio.create_subprocess_exec(
        *("sh", "-c", f"exec {command} 2>&-"),
        cwd=directory,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
