"""Starts and ends: after a killed service, and of one without stderr."""

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import aiohttp
import pytest

from tests.acceptance.client import sign_up
from tests.acceptance.process import Process, launch_fresh
from tests.acceptance.services import Services


@pytest.fixture
async def fresh_services(directory: Path, database_url: str) -> AsyncIterator[Services]:
    """Services in new interpreters, whatever else is done to start them quickly."""
    services = Services(directory, {"url": database_url}, launch_fresh)
    yield services
    await services.close()


@pytest.mark.everyday
async def test_service_continues_after_a_killed_one(
    fresh_services: Services, session: aiohttp.ClientSession
) -> None:
    killed = await fresh_services.start()
    client = await sign_up(session, killed.url)
    agent = await client.create_agent(debounce_window_seconds=3600)
    note = await client.notify(agent, source="sms")
    await killed.kill()
    other = client.at((await fresh_services.start()).url)
    assert await other.status_of("/readyz") == 200
    assert [each["id"] for each in await other.notifications(agent)] == [note["id"]]
    assert (await other.post(f"/api/cloud/agents/{agent}/run/"))["status"] == "started"
    assert (await other.ended_run(agent))["outcome"] == "slept"


@pytest.mark.everyday
async def test_service_starts_and_ends_without_stderr(directory: Path, database_url: str) -> None:
    services = Services(directory, {"url": database_url}, _launch_without_stderr)
    service = await services.start()
    service.terminate()
    assert await service.exit_code() == 0
    await services.close()


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
