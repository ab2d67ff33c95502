"""kill -9: no acknowledged write is lost, no agent stays asleep, and a restart is all that is needed."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.client import Client, Refused, eventually, sign_up
from tests.acceptance.locks import locked_row
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import Services

AGENTS = 12
WRITERS = 8
ACKNOWLEDGED_BEFORE_THE_KILL = 150

Ledger = dict[str, str]  # acknowledged notification -> its agent


@pytest.mark.everyday
async def test_killed_service_loses_no_acknowledged_notification(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agents = [await client.create_agent(name=f"Agent {number}") for number in range(AGENTS)]
    ledger: Ledger = {}
    for _ in range(2):
        await _write_until_killed(client, agents, service, ledger)
        service = await services.start()
        client = client.at(service.url)
    await _all_present_and_handled(client, agents, ledger)


async def test_service_killed_with_its_postgresql_recovers(
    embedded_services: Services, session: aiohttp.ClientSession
) -> None:
    service = await embedded_services.start()
    client = await sign_up(session, service.url)
    agents = [await client.create_agent(name=f"Agent {number}") for number in range(AGENTS)]
    ledger: Ledger = {}
    postmaster = _postmaster_of(embedded_services)
    await _write_until_killed(client, agents, service, ledger, postmaster)
    again = client.at((await embedded_services.start()).url)
    await _all_present_and_handled(again, agents, ledger)


@pytest.mark.everyday
async def test_run_of_a_killed_service_is_fenced_and_recovered(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    note = await client.notify(agent, "By the way", priority="low")
    with locked_row(database_url, note["id"]):
        await client.post(f"/api/cloud/agents/{agent}/run/")
        await _waits_for_a_lock(client, agent)
        await service.kill()
        # The dead service's connection still waits to clear the note; the next node ends it first.
        again = client.at((await services.start()).url)
        first = await again.ended_run(agent)
        assert first["outcome"] == "interrupted"
        assert (await again.supervisor(agent))["failures"]["consecutive"] == 1
    second = await again.ended_run(agent, 2)
    assert (second["wake_reason"], second["outcome"]) == ("restart_recovery", "slept")
    assert [each["cleared"] for each in await again.notifications(agent)] == [True]
    assert (await again.supervisor(agent))["failures"]["consecutive"] == 0


async def _write_until_killed(
    client: Client,
    agents: Sequence[str],
    service: ServiceProcess,
    ledger: Ledger,
    postmaster: int | None = None,
) -> None:
    """Send high-priority notifications concurrently, record the acknowledged ones, and kill the service."""
    target = len(ledger) + ACKNOWLEDGED_BEFORE_THE_KILL
    reached = asyncio.Event()

    async def write(writer: int) -> None:
        for turn in range(10_000):
            agent = agents[(writer + turn) % len(agents)]
            answer = await client.notify(agent, f"{writer}.{turn}")
            ledger[answer["id"]] = agent
            if len(ledger) >= target:
                reached.set()

    async def write_until_refused(writer: int) -> None:
        with suppress(aiohttp.ClientError, Refused):
            await write(writer)

    writers = [asyncio.create_task(write_until_refused(writer)) for writer in range(WRITERS)]
    await reached.wait()
    if postmaster is not None:
        os.kill(postmaster, signal.SIGKILL)
    await service.kill()
    await asyncio.gather(*writers)


async def _all_present_and_handled(client: Client, agents: Sequence[str], ledger: Ledger) -> None:
    """Assert that every acknowledged notification exists and that a run clears each of them."""
    for agent in agents:
        present = {note["id"] for note in await client.notifications(agent)}
        lost = {note for note, owner in ledger.items() if owner == agent} - present
        assert not lost, f"acknowledged, but lost: {lost}"

    async def all_agents_are_done() -> bool | None:
        for agent in agents:
            if await client.notifications(agent, cleared="false"):
                return None
            if (await client.supervisor(agent))["phase"] != "asleep":
                return None
        return True

    await eventually(all_agents_are_done, "every agent to clear what woke it and sleep again")
    for agent in agents:
        assert (await client.runs(agent))[-1]["outcome"] == "slept"


async def _waits_for_a_lock(client: Client, agent: str) -> None:
    async def is_in_second_turn() -> bool | None:
        run = (await client.supervisor(agent))["run"]
        return True if run and run["turn"] == 2 else None

    await eventually(is_in_second_turn, "the run to be in its second turn")


def _postmaster_of(services: Services) -> int:
    """Return the process id of the service's PostgreSQL."""
    pid_file = Path(services.database["data_dir"]) / "postgres" / "postmaster.pid"
    return int(pid_file.read_text().splitlines()[0])
