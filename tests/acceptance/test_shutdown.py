"""SIGTERM: the process ends in order, and the next one goes on where it left off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from urllib.parse import urlsplit

import aiohttp
import psycopg2

from tests.acceptance.client import Client, eventually, moment, sign_up
from tests.acceptance.locks import held_by_somebody_else
from tests.acceptance.services import Services

DRAIN_SECONDS = 10.0
LATE = timedelta(seconds=1)
NOTIFICATIONS = "/api/defaults/notifications/"

FILL = """
INSERT INTO notification (organization_id, agent_id, title, body, priority)
SELECT organization_id, id, 'n' || n, repeat('x', 10000), 'low' FROM agent, generate_series(1, 3000) AS n
"""


async def test_a_hold_goes_on_over_a_restart_and_ends_when_it_would_have(
    services: Services, session: aiohttp.ClientSession
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent(debounce_window_seconds=3)
    await client.notify(agent, source="sms")
    held = (await client.supervisor_in("holding", agent))["debounce"]
    service.terminate()
    assert await service.exit_code(within=DRAIN_SECONDS) == 0

    again = client.at((await services.start()).url)
    assert (await again.supervisor(agent))["debounce"] == held
    run = await again.ended_run(agent)
    assert timedelta() <= moment(run["started_at"]) - moment(held["due_at"]) < LATE
    assert (run["wake_reason"], run["outcome"]) == ("notification:sms", "slept")
    assert len(await again.runs(agent)) == 1


async def test_a_run_is_let_to_its_turn_boundary_and_taken_up_again_without_blame(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(server={"drain_seconds": DRAIN_SECONDS})
    client = await sign_up(session, service.url)
    agent, notification = await _agent_with_a_note(client)
    with held_by_somebody_else(database_url, notification):
        await _run_that_waits_to_clear(client, agent)
        service.terminate()
        await _draining(client)
    assert await service.exit_code(within=DRAIN_SECONDS) == 0

    again = client.at((await services.start()).url)
    second = await again.ended_run(agent, 2)
    first = (await again.runs(agent))[0]
    assert (first["outcome"], first["turns"]) == ("interrupted", 2)
    assert (second["wake_reason"], second["outcome"]) == ("restart_recovery", "slept")
    assert (await again.supervisor(agent))["failures"]["consecutive"] == 0
    assert [note["cleared"] for note in await again.notifications(agent)] == [True]


async def test_what_is_sent_during_the_drain_is_kept_and_no_run_is_begun(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(server={"drain_seconds": DRAIN_SECONDS})
    client = await sign_up(session, service.url)
    busy, notification = await _agent_with_a_note(client)
    idle = await client.create_agent(name="Idle")
    with held_by_somebody_else(database_url, notification):
        await _run_that_waits_to_clear(client, busy)
        service.terminate()
        await _draining(client)
        late = await client.notify(idle)
        assert await client.status_of(f"/api/cloud/agents/{idle}/run/", "POST") == 503
        assert await client.runs(idle) == []
    assert await service.exit_code(within=DRAIN_SECONDS) == 0

    again = client.at((await services.start()).url)
    run = await again.ended_run(idle)
    assert (run["notifications"], run["outcome"]) == ([late["id"]], "slept")


async def test_a_run_that_outlasts_the_drain_time_is_cut_off_and_taken_up_again(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(server={"drain_seconds": 0.2}, database={"command_timeout_seconds": 2.0})
    client = await sign_up(session, service.url)
    agent, notification = await _agent_with_a_note(client)
    with held_by_somebody_else(database_url, notification):
        await _run_that_waits_to_clear(client, agent)
        service.terminate()
        assert await service.exit_code() == 0

    again = client.at((await services.start()).url)
    second = await again.ended_run(agent, 2)
    assert [run["outcome"] for run in await again.runs(agent)] == ["interrupted", "slept"]
    assert second["wake_reason"] == "restart_recovery"
    assert [note["cleared"] for note in await again.notifications(agent)] == [True]


async def test_a_start_that_waits_for_a_slot_keeps_its_place_over_a_restart(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start(runs={"max_concurrent": 1})
    client = await sign_up(session, service.url)
    busy, notification = await _agent_with_a_note(client)
    waiting = await client.create_agent(name="Second in line")
    with held_by_somebody_else(database_url, notification):
        await _run_that_waits_to_clear(client, busy)
        asked = await client.post(f"/api/cloud/agents/{waiting}/run/")
        assert asked == {"status": "queued", "run": None}
        service.terminate()
        await _draining(client)
    assert await service.exit_code(within=DRAIN_SECONDS) == 0

    again = client.at((await services.start(runs={"max_concurrent": 1})).url)
    run = await again.ended_run(waiting)
    assert (run["wake_reason"], run["outcome"]) == ("run_requested", "slept")


async def test_clients_that_neither_send_nor_read_on_do_not_keep_the_service(
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
        assert await service.exit_code(within=8) == 0


@asynccontextmanager
async def _stuck_request(
    client: Client, method: str, *headers: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A request on a connection of its own, of whose answer hardly anything is taken."""
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


async def _run_that_waits_to_clear(client: Client, agent: str) -> None:
    """A run in its second turn, which cannot end before the note's row is free."""
    assert (await client.post(f"/api/cloud/agents/{agent}/run/"))["status"] == "started"

    async def look() -> bool | None:
        run = (await client.supervisor(agent))["run"]
        return True if run and run["turn"] == 2 else None

    await eventually(look, "the run to be in its second turn")


async def _draining(client: Client) -> None:
    async def look() -> bool | None:
        return True if await client.status_of("/readyz") == 503 else None

    await eventually(look, "/readyz to say that the service is shutting down")
    assert await client.status_of("/healthz") == 200
