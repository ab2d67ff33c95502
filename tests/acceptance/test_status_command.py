"""`hostsvc status` as a process: a running service and its agents, once or continuously."""

import asyncio
import os
import pty
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4

import aiohttp
import pytest

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import KEPT_VARIABLES, Launch, Process
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.crash.faults import OwnPostgres
from tests.patience import PATIENCE_SECONDS

WIDE = {"COLUMNS": "200"}
KNOWN = {"HOSTSVC__OPERATOR__TOKEN": OPERATOR_TOKEN, **WIDE}


@asynccontextmanager
async def status(
    launch: Launch, directory: Path, *arguments: str, environment: Mapping[str, str], log: IO[bytes]
) -> AsyncIterator[Process]:
    process = await launch(["status", *arguments], directory, inherited() | {**environment}, log)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


async def finished(
    launch: Launch, directory: Path, *arguments: str, environment: Mapping[str, str]
) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of the command."""
    with tempfile.TemporaryFile() as log:
        async with status(launch, directory, *arguments, environment=environment, log=log) as process:
            assert process.stdout is not None
            out = await process.stdout.read()
            code = await process.wait()
        log.seek(0)
        return code, out.decode(), log.read().decode()


async def output_of(launch: Launch, directory: Path, *arguments: str, **environment: str) -> str:
    """Run the command, which must succeed, and return its output."""
    code, out, err = await finished(launch, directory, *arguments, environment=environment)
    assert (code, err) == (0, ""), err
    return out


async def failure(launch: Launch, directory: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run the command, which must print one line of error only, and return its exit code and that line."""
    code, out, err = await finished(launch, directory, *arguments, environment=environment)
    assert out == ""
    [line] = err.splitlines()
    return code, line.removeprefix("hostsvc: ")


async def read_until(process: Process, text: str) -> str:
    """Return the first line with this text."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while line := await process.stdout.readline():
            if text in line.decode():
                return line.decode()
    raise AssertionError(f"ended without a line with {text!r}")


async def create_holding_agent(client: Client) -> str:
    return await client.create_agent(name="Grace\x1b[2J", debounce_window_seconds=3600)


@pytest.mark.everyday
async def test_status_shows_the_whole_service(
    services: Services, session: aiohttp.ClientSession, directory: Path, launch: Launch
) -> None:
    service = await services.start(supervisors={"scan_interval_seconds": 0.2})
    client = await sign_up(session, service.url)
    agent = await create_holding_agent(client)
    await client.notify(agent, source="sms")
    snapshot = await client.handled_hold(agent)

    # The command finds the token like `hostsvc operator-token`, by the configuration of the service.
    screen = await output_of(launch, directory, "--url", service.url, "--config", "service-1.toml", **WIDE)

    for expected in ("state        ready", "1 in memory: 1 holding", "trouble      none", "Grace·[2J", agent):
        assert expected in screen
    assert "\x1b" not in screen
    assert snapshot["why"][:40] in " ".join(screen.split())
    assert agent in await output_of(launch, directory, "--url", service.url, "--phase", "holding", **KNOWN)
    assert "No agents to show." in await output_of(
        launch, directory, "--url", service.url, "--phase", "running", **KNOWN
    )


@pytest.fixture
async def own_postgres(directory: Path) -> AsyncIterator[OwnPostgres]:
    """A server that the test may stop."""
    postgres = await asyncio.to_thread(OwnPostgres, directory / "own")
    yield postgres
    await asyncio.to_thread(postgres.stop)


async def test_lost_database_has_own_sentences_and_codes(
    own_postgres: OwnPostgres, directory: Path, launch: Launch
) -> None:
    services = Services(directory, {"url": own_postgres.url}, launch)
    service = ("--url", (await services.start()).url)

    await asyncio.to_thread(own_postgres.stop)
    code, out, _ = await finished(launch, directory, *service, environment=KNOWN)
    assert code == 5
    assert "state        degraded" in out
    assert "The agents cannot be shown, because the database does not answer." in out
    code, line = await failure(launch, directory, str(uuid4()), *service, **KNOWN)
    assert (code, "runs, but cannot read its agents" in line) == (5, True)

    without_token = {"HOSTSVC__DATABASE__URL": own_postgres.url}
    code, out, err = await finished(launch, directory, *service, environment=without_token)
    state, token = err.splitlines()
    assert (code, out) == (5, "")
    assert "runs, but cannot serve: " in state
    assert "the operator token cannot be read from the database" in token
    assert "set HOSTSVC__OPERATOR__TOKEN to the token" in token
    await services.end()


async def test_watch_follows_an_agent_until_sigint(
    services: Services, session: aiohttp.ClientSession, directory: Path, launch: Launch
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await create_holding_agent(client)

    with tempfile.TemporaryFile() as log:
        async with status(
            launch, directory, agent, "--watch", "--url", service.url, environment=KNOWN, log=log
        ) as process:
            assert "asleep" in await read_until(process, "phase")
            await client.notify(agent, source="sms")
            await read_until(process, "holding")
            service.terminate()
            await service.exit_code()
            assert "trying again every second" in await read_until(process, "no service answers")
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await process.wait() == 0


async def test_watch_redraws_the_screen_of_a_terminal(
    services: Services, session: aiohttp.ClientSession, directory: Path
) -> None:
    service = await services.start()
    terminal, end_of_process = pty.openpty()
    environment = {**KNOWN, "TERM": "xterm"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "hostsvc", "status", "--watch", "--url", service.url),
        cwd=directory,
        env=inherited() | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=end_of_process,
    )
    os.close(end_of_process)
    try:
        drawn = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while drawn.count(b"No agents to show.") < 2:
                drawn += await asyncio.to_thread(os.read, terminal, 65_536)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    os.close(terminal)
    assert b"\x1b[?1049h" in drawn  # the alternate screen, as pagers use it
