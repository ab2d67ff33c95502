"""Readiness follows the writes: /readyz says why none succeeds, and the log says it once."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import aiohttp
import psycopg2

from tests.acceptance.client import Client, eventually, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.crash.faults import END_SERVICE_CONNECTIONS, end_connections
from tests.storage.postgres.read_only import read_only_database

REQUESTS = 60

REPORT_FULL_DISK = """
CREATE FUNCTION report_full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER report_full_disk BEFORE INSERT ON notification EXECUTE FUNCTION report_full_disk()
"""
HAVE_SPACE_AGAIN = "DROP FUNCTION report_full_disk CASCADE"


@contextmanager
def full_disk(database_url: str) -> Iterator[None]:
    """Let PostgreSQL refuse every notification as it does when its disk is full."""
    with closing(psycopg2.connect(database_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(REPORT_FULL_DISK)
        try:
            yield
        finally:
            cursor.execute(HAVE_SPACE_AGAIN)


async def statuses_of_writes(client: Client, agent: str, count: int) -> set[int]:
    """Send notifications one after the other, and return which statuses were answered."""
    found = set()
    for _ in range(count):
        body = {"agent": agent, "title": "Hello", "priority": "low"}
        headers = {"Authorization": client.authorization}
        url = f"{client.url}/api/defaults/notifications/"
        async with client.session.post(url, json=body, headers=headers) as response:
            found.add(response.status)
            assert response.status != 503 or int(response.headers["Retry-After"]) > 0
    return found


async def ready_answer(client: Client, status: int) -> str:
    """Return the body with which /readyz answers this status in the end."""

    async def look() -> str | None:
        async with client.session.get(f"{client.url}/readyz") as response:
            body = await response.text()
            return body if response.status == status else None

    return await eventually(look, f"/readyz to answer {status}")


async def warnings_of_outage(service: ServiceProcess) -> list[str]:
    """Return all warnings once the end of the outage is in the log, but that of the start."""

    async def look() -> list[str] | None:
        return warnings_in(service) if "is available again" in service.log() else None

    return await eventually(look, "the end of the outage to be logged")


def warnings_in(service: ServiceProcess) -> list[str]:
    """Return the warnings since the start, which warns of secrets in clear."""
    lines = map(json.loads, filter(None, service.log().splitlines()))
    at_start, *later = [
        f"{line['event']} {line.get('reason', '')}" for line in lines if line["level"] != "info"
    ]
    assert at_start.startswith("secrets are stored in clear")
    return later


async def test_readiness_says_that_the_disk_is_full(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    with full_disk(database_url):
        assert await statuses_of_writes(client, agent, REQUESTS) == {503}
        assert "the disk of the database is full" in await ready_answer(client, 503)
        operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")
        state = (await operator.get("/status/"))["service"]
        assert state["state"] == "degraded"
        assert "the disk of the database is full" in state["reasons"][0]
    await ready_answer(client, 200)
    assert await statuses_of_writes(client, agent, 1) == {201}
    [warning] = await warnings_of_outage(service)
    assert "the disk of the database is full" in warning


async def test_service_writes_again_after_read_only_database(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    agent = await client.create_agent()
    with read_only_database(database_url):
        await end_connections(database_url, END_SERVICE_CONNECTIONS)
        assert await statuses_of_writes(client, agent, REQUESTS) == {503}
        await ready_answer(client, 503)
    await ready_answer(client, 200)
    assert await statuses_of_writes(client, agent, REQUESTS) == {201}
    [warning] = await warnings_of_outage(service)
    assert "the server is a standby or allows reads only" in warning
