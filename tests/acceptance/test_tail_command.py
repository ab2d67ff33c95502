"""`hostsvc tail` as a process: the events of a running service, also over its restarts."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import aiohttp
import pytest

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import Launch, Process
from tests.acceptance.services import Services
from tests.acceptance.test_status_command import KNOWN, inherited, read_until
from tests.patience import PATIENCE_SECONDS


@asynccontextmanager
async def tail(launch: Launch, directory: Path, *arguments: str, log: IO[bytes]) -> AsyncIterator[Process]:
    process = await launch(["tail", *arguments], directory, inherited() | KNOWN, log)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def interrupted(process: Process) -> int:
    """Press Ctrl-C and return the exit code."""
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await process.wait()


def written(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode()


async def create_agent(client: Client, name: str = "Grace\x1b[2J") -> str:
    return await client.create_agent(name=name, debounce_window_seconds=0)


@pytest.mark.everyday
async def test_tail_prints_one_line_for_each_event(
    services: Services, session: aiohttp.ClientSession, directory: Path, launch: Launch
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent, other = await create_agent(client), await create_agent(client, "Ada")
    for each in (agent, other):
        await client.notify(each, title="Tea\x07?", source="sms")
        await client.ended_run(each)
    with tempfile.TemporaryFile() as log:
        async with tail(launch, directory, agent, "--since", "1h", "--url", service.url, log=log) as process:
            created = await read_until(process, "notification.created")
            assert '  Grace·[2J  A high-priority notification from sms: "Tea·?" (by key ' in created
            assert 'Cleared a notification: "Tea·?" (by run ' in await read_until(process, ".cleared")
            await client.notify(other, source="sms")
            await client.notify(agent, source="email")
            assert "from email" in await read_until(process, "created")  # and nothing of the other agent
            assert await interrupted(process) == 0
        assert written(log) == ""


async def test_tail_ends_quietly_when_nobody_reads(
    services: Services, session: aiohttp.ClientSession, directory: Path
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await create_agent(client)
    await client.notify(agent, source="sms")
    command = f"{sys.executable} -W error -m hostsvc tail --since 1h --url {service.url} | head -n 1"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", command),
        cwd=directory,
        env=inherited() | KNOWN,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert b"agent.created" in await process.stdout.readline()
        await client.notify(agent, source="sms")
        _, errors = await process.communicate()
    assert errors == b""
