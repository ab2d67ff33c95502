"""`hostsvc status` in a terminal: a running service and its agents, shown once or as they change."""

import asyncio
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import KEPT_VARIABLES, PATIENCE_SECONDS
from tests.acceptance.services import OPERATOR_TOKEN, Services

WIDE = {"COLUMNS": "200"}
KNOWN = {"HOSTSVC__OPERATOR__TOKEN": OPERATOR_TOKEN, **WIDE}


@asynccontextmanager
async def status(
    directory: Path, *arguments: str, environment: Mapping[str, str], stdout: int = asyncio.subprocess.PIPE
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "hostsvc", "status", *arguments),
        cwd=directory,
        env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {**environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def shown(directory: Path, *arguments: str, **environment: str) -> str:
    """What it prints, when all is well."""
    async with status(directory, *arguments, environment=environment) as process:
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b""), err.decode()
    return out.decode()


async def refusal(directory: Path, *arguments: str, **environment: str) -> str:
    """The one line it says, when there is something to mend."""
    async with status(directory, *arguments, environment=environment) as process:
        out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    [line] = err.decode().splitlines()
    return line.removeprefix("hostsvc: ")


async def read_until(process: asyncio.subprocess.Process, text: str) -> str:
    """The first line with this text."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for line in process.stdout:
            if text in line.decode():
                return line.decode()
    raise AssertionError(f"ended without a line with {text!r}")


async def holder(client: Client) -> str:
    return await client.create_agent(name="Grace\x1b[2J", debounce_window_seconds=3600)


async def test_the_whole_service_is_shown(
    services: Services, session: aiohttp.ClientSession, directory: Path
) -> None:
    service = await services.start(supervisors={"scan_interval_seconds": 0.2})
    client = await sign_up(session, service.url)
    agent = await holder(client)
    await client.notify(agent, source="sms")
    snapshot = await client.supervisor_in("holding", agent)

    # The token is found as `hostsvc operator-token` finds it: by the configuration of the service.
    screen = await shown(directory, "--url", service.url, "--config", "service-1.toml", **WIDE)

    for expected in ("state        ready", "1 live: 1 holding", "0 quarantined", "Grace·[2J", agent):
        assert expected in screen
    assert "\x1b" not in screen
    assert snapshot["why"][:40] in " ".join(screen.split())
    assert agent in await shown(directory, "--url", service.url, "--phase", "holding", **KNOWN)
    assert "No agents." in await shown(directory, "--url", service.url, "--phase", "running", **KNOWN)


async def test_one_agent_is_shown_with_what_was_said_to_it(
    services: Services, session: aiohttp.ClientSession, directory: Path
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await holder(client)
    blocker = await client.notify(agent, source="sms")
    snapshot = await client.supervisor_in("holding", agent)

    screen = await shown(directory, agent, "--url", service.url, **KNOWN)

    told = " ".join(screen.split())
    for expected in (agent, "holding since", snapshot["why"], blocker["id"], "0 of 256", "notified holding"):
        assert expected in told
    assert "The debounce window over its messages ends." in told


async def test_an_agent_is_watched_until_somebody_has_seen_enough(
    services: Services, session: aiohttp.ClientSession, directory: Path
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await holder(client)

    async with status(directory, agent, "--watch", "--url", service.url, environment=KNOWN) as process:
        assert "asleep" in await read_until(process, "phase")
        await client.notify(agent, source="sms")
        await read_until(process, "holding")
        service.terminate()
        await service.exit_code()
        assert "asked again every second" in await read_until(process, "no service answers")
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0


async def test_in_a_terminal_the_watched_screen_is_drawn_in_place(
    services: Services, session: aiohttp.ClientSession, directory: Path
) -> None:
    service = await services.start()
    terminal, end_of_process = pty.openpty()
    environment = {**KNOWN, "TERM": "xterm"}
    async with status(
        directory, "--watch", "--url", service.url, environment=environment, stdout=end_of_process
    ) as process:
        os.close(end_of_process)
        drawn = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while drawn.count(b"No agents.") < 2:
                drawn += await asyncio.to_thread(os.read, terminal, 65_536)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0
    os.close(terminal)
    assert b"\x1b[?1049h" in drawn  # a screen of its own, as pagers have


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (("--url", "http://127.0.0.1:1"), {}, "no service answers at http://127.0.0.1:1: start it"),
        (("--url", "nonsense"), {}, "no service answers at nonsense: start it"),
        ((), {"HOSTSVC__SERVER__PORT": "0"}, "server.port is 0, any free one: give the --url"),
        ((), {"HOSTSVC__SERVER__PORT": "1"}, "no service answers at http://127.0.0.1:1: start it"),
    ],
)
async def test_where_nothing_answers_the_status_says_what_to_do(
    directory: Path, arguments: tuple[str, ...], environment: dict[str, str], expected: str
) -> None:
    assert (await refusal(directory, *arguments, **environment)).startswith(expected)
    assert os.listdir(directory) == []  # no database is made on the way


async def test_a_service_that_refuses_is_told_apart(services: Services, directory: Path) -> None:
    service = await services.start()
    at = ("--url", service.url)
    wrong = {"HOSTSVC__OPERATOR__TOKEN": "wrong"}

    assert "takes another operator token" in await refusal(directory, *at, **wrong)
    missing = str(uuid4())
    assert await refusal(directory, missing, *at, **KNOWN) == f"there is no agent {missing}"
