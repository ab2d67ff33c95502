"""SIGTERM: the process ends in order, and the next one continues its work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from urllib.parse import urlsplit

import aiohttp
import psycopg2
import pytest

from tests.acceptance.client import Client, eventually, moment, sign_up
from tests.acceptance.locks import locked_row
from tests.acceptance.log_lines import line_of
from tests.acceptance.services import Services
from tests.patience import PATIENCE_SECONDS

DRAIN_SECONDS = PATIENCE_SECONDS  # more than any wait here takes
STUCK_SECONDS = 25.0  # sooner than the service hangs up on a client that reads nothing
WINDOW = timedelta(seconds=5)
NOTIFICATIONS = "/api/defaults/notifications/"

FILL = """
INSERT INTO notification (organization_id, agent_id, title, body, priority)
SELECT organization_id, id, 'n' || n, repeat('x', 10000), 'low' FROM agent, generate_series(1, 3000) AS n
"""


@pytest.mark.everyday
async def test_hold_survives_restart_and_ends_on_time(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent(debounce_window_seconds=WINDOW.seconds)
    await client.notify(agent, source="sms")
    held = (await client.supervisor_in("holding", agent))["debounce"]
    service.terminate()
    assert await service.exit_code() == 0

    again = client.at((await services.start()).url)
    # On a busy machine a restart may take longer than the hold.
    assert (await again.supervisor(agent))["debounce"] in (held, None)
    run = await again.ended_run(agent)
    assert moment(run["started_at"]) >= moment(held["due_at"])
    assert (run["wake_reason"], run["outcome"]) == ("notification:sms", "slept")
    assert len(await again.runs(agent)) == 1


@pytest.mark.everyday
async def test_drained_run_ends_at_turn_boundary_and_resumes_without_failure(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(server={"drain_seconds": DRAIN_SECONDS})
    client = await sign_up(session, service.url)
    agent, notification = await _agent_with_a_note(client)
    with locked_row(database_url, notification):
        await _start_blocked_run(client, agent)
        service.terminate()
        await _wait_until_draining(client)
    assert await service.exit_code() == 0

    again = client.at((await services.start()).url)
    second = await again.ended_run(agent, 2)
    first = (await again.runs(agent))[0]
    assert (first["outcome"], first["turns"]) == ("interrupted", 2)
    assert (second["wake_reason"], second["outcome"]) == ("restart_recovery", "slept")
    assert (await again.supervisor(agent))["failures"]["consecutive"] == 0
    assert [note["cleared"] for note in await again.notifications(agent)] == [True]


async def test_notification_sent_during_drain_is_handled_after_restart(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(server={"drain_seconds": DRAIN_SECONDS})
    client = await sign_up(session, service.url)
    busy, notification = await _agent_with_a_note(client)
    idle = await client.create_agent(name="Idle")
    with locked_row(database_url, notification):
        await _start_blocked_run(client, busy)
        service.terminate()
        await _wait_until_draining(client)
        note = await client.notify(idle)
        assert await client.status_of(f"/api/cloud/agents/{idle}/run/", "POST") == 503
        assert await client.runs(idle) == []
    assert await service.exit_code() == 0

    again = client.at((await services.start()).url)
    run = await again.ended_run(idle)
    assert (run["notifications"], run["outcome"]) == ([note["id"]], "slept")


async def test_second_sigterm_interrupts_the_runs_that_the_first_waits_for(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(server={"drain_seconds": 600}, database={"command_timeout_seconds": 2.0})
    client = await sign_up(session, service.url)
    agent, notification = await _agent_with_a_note(client)
    with locked_row(database_url, notification):
        await _start_blocked_run(client, agent)
        service.terminate()
        begun = await line_of(service, event="drain begun")
        assert (begun["runs"], begun["drain_seconds"]) == (1, 600)
        service.terminate()
        assert await service.exit_code() == 0
    done = await line_of(service, event="drain done")
    assert (done["ended"], done["interrupted"]) == (0, 1)
    assert (await line_of(service, event="end requested", again=True))["signal"] == "SIGTERM"


async def test_stuck_clients_do_not_prevent_shutdown(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(server={"drain_seconds": 0.5})
    client = await sign_up(session, service.url)
    await client.create_agent()
    connection = psycopg2.connect(database_url)
    with connection, connection.cursor() as cursor:
        cursor.execute(FILL)
    connection.close()

    async with (
        _stuck_request(client, "POST", "Content-Length: 1000", "Expect: 100-continue") as (answer, body),
        _stuck_request(client, "GET") as (long_list, _),
    ):
        assert await answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        body.write(b"{")
        assert await long_list.readline() == b"HTTP/1.1 200 OK\r\n"
        service.terminate()
        assert await service.exit_code(within=STUCK_SECONDS) == 0


@asynccontextmanager
async def _stuck_request(
    client: Client, method: str, *headers: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send a request on a new connection, and read hardly anything of the response."""
    address = urlsplit(client.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=100)
    head = (f"Host: {address.netloc}", f"Authorization: {client.authorization}", *headers)
    writer.write("\r\n".join((f"{method} {NOTIFICATIONS} HTTP/1.1", *head, "", "")).encode())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _agent_with_a_note(client: Client) -> tuple[str, str]:
    agent = await client.create_agent()
    note = await client.notify(agent, "By the way", priority="low")
    return agent, note["id"]


async def _start_blocked_run(client: Client, agent: str) -> None:
    """Start a run that is in its second turn and cannot end while the note's row is locked."""
    assert (await client.post(f"/api/cloud/agents/{agent}/run/"))["status"] == "started"

    async def look() -> bool | None:
        run = (await client.supervisor(agent))["run"]
        return True if run and run["turn"] == 2 else None

    await eventually(look, "the run to be in its second turn")


async def _wait_until_draining(client: Client) -> None:
    async def look() -> bool | None:
        return True if await client.status_of("/readyz") == 503 else None

    await eventually(look, "/readyz to say that the service is shutting down")
    assert await client.status_of("/healthz") == 200
