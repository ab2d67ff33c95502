"""The log of a real process in JSON: every line parses, and nothing else is printed."""

import os
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.client import sign_up
from tests.acceptance.log_lines import line_of, lines_of
from tests.acceptance.process import Launch, Sections, ServiceProcess, launched_by, spawn
from tests.paths import ROOT

LOG = {"format": "json", "access": True}

# Run by the interpreter at its start: on SIGUSR1 it does what careless libraries do.
CARELESS = """
import asyncio, logging, signal, threading, warnings

def misbehave(*_):
    warnings.warn("careful", UserWarning)
    logging.getLogger("library").error("two\\nlines")
    threading.Thread(target=lambda: 1 // 0).start()
    asyncio.get_event_loop().call_soon(lambda: {}["nothing"])

signal.signal(signal.SIGUSR1, misbehave)
"""


def events_of(process: ServiceProcess) -> list[str]:
    return [line["event"] for line in lines_of(process) if line["logger"] != "access"]


def launch_careless(directory: Path) -> Launch:
    """Return how to start `hostsvc` with a careless library, whose warnings are no errors."""
    (directory / "sitecustomize.py").write_text(CARELESS)
    modules = f"{directory}{os.pathsep}{ROOT}"
    return launched_by("-W", "default", "-m", "hostsvc", PYTHONPATH=modules)


@pytest.mark.everyday
async def test_json_log_tells_all_and_nothing_else_is_printed(
    directory: Path, session: aiohttp.ClientSession, database_url: str
) -> None:
    sections: Sections = {"server": {"port": 0}, "database": {"url": database_url}, "log": LOG}
    process = await spawn(directory, "told", sections, launch_careless(directory), ["--guide"])
    try:
        client = await sign_up(session, (await line_of(process, event="service ready"))["address"])
        agent = await client.create_agent()
        await client.notify(agent)
        run = await client.ended_run(agent)
        ended = await line_of(process, event="run ended")
        broken = await client.create_agent(name="Broken", model="nothing")
        await client.notify(broken)
        failed = await line_of(process, event="run ended", agent=broken)
        assert await client.status_of("/nowhere/?code=hunter2") == 404
        process.send_signal(signal.SIGUSR1)
        uncaught = await line_of(process, event="uncaught error")
        asyncio_error = await line_of(process, logger="asyncio")
        process.terminate()
        assert await process.exit_code() == 0
    finally:
        await process.close()

    assert await process.rest() == ""
    assert "hunter2" not in process.log()
    start = ["service starting", "database migrated", "node joined", "recovered"]
    # It recovers again if it was not confirmed for a moment, as on a busy machine.
    assert list(dict.fromkeys(event for event in events_of(process) if event in start)) == start
    end = ["end requested", "drain begun", "drain done", "node left", "service stopped"]
    assert events_of(process)[-5:] == end
    assert (ended["agent"], ended["run"], ended["outcome"]) == (agent, run["id"], "slept")
    assert failed["error"].startswith("There is no model builtin/nothing")
    assert "ZeroDivisionError" in uncaught["exception"]
    assert "KeyError" in asyncio_error["exception"]
    assert any("UserWarning: careful" in event for event in events_of(process))
    [missing] = [line for line in lines_of(process) if line.get("path") == "/nowhere/"]
    assert (missing["status"], missing["route"]) == (404, "")


async def test_start_line_names_sources_and_database_without_password(
    directory: Path, launch: Launch
) -> None:
    url = "postgresql://somebody:hunter2@127.0.0.1:1/nothing"
    process = await spawn(directory, "refused", {"server": {"port": 0}, "database": {"url": url}}, launch)
    assert await process.exit_code() == 2
    start, refused = lines_of(process)
    assert start["configuration"] == [str(directory / "refused.toml")]
    assert start["database"] == "the database 127.0.0.1:1/nothing"
    assert (refused["event"], refused["level"]) == ("service refused", "error")
    assert "hunter2" not in process.log()


async def test_end_of_wait_for_database_is_the_last_line(directory: Path, launch: Launch) -> None:
    sections: Sections = {"server": {"port": 0}, "database": {"url": "postgresql://127.0.0.1:1/nothing"}}
    process = await spawn(directory, "waiting", sections, launch, ["--wait-for-database", "600"])
    await line_of(process, event="waiting for the database")
    process.send_signal(signal.SIGHUP)  # not yet of use, and no reason to end
    process.terminate()
    assert await process.exit_code() == 0
    assert events_of(process)[-2:] == ["end requested", "service stopped"]
