"""`hostsvc tail` as a process: the events of a running service, also over its restarts."""

import asyncio
import json
import os
import pty
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import aiohttp
import pytest

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import PATIENCE_SECONDS, Launch, Process
from tests.acceptance.services import Services
from tests.acceptance.test_status_command import KNOWN, inherited, read_until


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


async def read_event(process: Process) -> dict[str, Any]:
    """Return the next new notification that is printed as JSON."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            event: dict[str, Any] = json.loads(await process.stdout.readline())
            if event["type"] == "notification.created":
                return event


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


async def test_tail_goes_on_after_the_service_was_killed(
    services: Services, session: aiohttp.ClientSession, directory: Path, launch: Launch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    service = await services.start(server={"port": port})
    client = await sign_up(session, service.url)
    agent = await create_agent(client, "Grace")
    options = ("--json", "--since", "1h", "--type", "notification.*")
    with tempfile.TemporaryFile() as log:
        async with tail(launch, directory, *options, "--url", service.url, log=log) as process:
            first = await client.notify(agent, source="sms")
            event = await read_event(process)
            assert (event["resource"]["id"], event["by"]["type"]) == (first["id"], "key")
            await service.kill()
            service = await services.start(server={"port": port})
            for title in ("one", "two", "three"):
                await client.notify(agent, title=title, source="sms")
            events = [await read_event(process) for _ in range(3)]
            assert [each["resource"]["title"] for each in events] == ["one", "two", "three"]
            assert await interrupted(process) == 0
        assert [line.split("; ")[-1] for line in written(log).splitlines()] == [
            "reconnecting",
            "hostsvc: connected again",
        ]


@pytest.mark.parametrize("without_color", [False, True])
async def test_tail_is_colored_on_a_terminal(
    services: Services,
    session: aiohttp.ClientSession,
    directory: Path,
    without_color: bool,
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    await client.notify(await create_agent(client), source="sms")
    terminal, end_of_process = pty.openpty()
    environment = {**KNOWN, "TERM": "xterm-256color"} | ({"NO_COLOR": "1"} if without_color else {})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "hostsvc", "tail", "--since", "1h", "--url", service.url),
        cwd=directory,
        env=inherited() | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=end_of_process,
    )
    os.close(end_of_process)
    printed = b""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"notification.created" not in printed:
                printed += await asyncio.to_thread(os.read, terminal, 65_536)
        assert await interrupted(process) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    os.close(terminal)
    assert (b"\x1b[36m" in printed) != without_color  # cyan
    assert b"\x1b[2J" not in printed


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


async def test_tail_refuses_what_it_cannot_follow(
    services: Services, session: aiohttp.ClientSession, directory: Path, launch: Launch
) -> None:
    service = await services.start()
    url = ("--url", service.url)
    client = await sign_up(session, service.url)
    await client.create_agent(name="Grace")

    async def refused(*arguments: str) -> str:
        code, out, err = await finished_tail(launch, directory, *arguments)
        assert (code, out) == (2, "")
        return err

    assert "there is no agent with the name Grase; did you mean Grace?" in await refused("Grase", *url)
    wrong_type = 'hostsvc: type: Unknown event type "run.endet". Did you mean "run.ended"?'
    assert (await refused("--type", "run.endet", *url)).strip() == wrong_type
    assert 'write it as "10m"' in await refused("--since", "soon", *url)
    code, _, err = await finished_tail(launch, directory, "--url", "http://127.0.0.1:1")
    assert (code, "no service answers" in err) == (3, True)


async def finished_tail(launch: Launch, directory: Path, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of a command that ends by itself."""
    with tempfile.TemporaryFile() as log:
        async with tail(launch, directory, *arguments, log=log) as process:
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE_SECONDS):
                out = await process.stdout.read()
                code = await process.wait()
        return code, out.decode(), written(log)
