"""An outage of an external PostgreSQL, as its operator sees it: in the log, /readyz and /status/."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from storage.postgres.connections import connect
from storage.postgres.pool import DatabaseSettings, open_pool
from tests.acceptance.client import Client, sign_up
from tests.acceptance.log_lines import line_of, lines_of
from tests.acceptance.process import Launch
from tests.acceptance.services import OPERATOR_TOKEN, Services
from tests.crash.load import Load
from tests.crash.tcp_postgres import TcpPostgres

pytestmark = pytest.mark.xdist_group("tcp postgres")  # they share one server, and stop it

UNAVAILABLE = "the database is unavailable"
BACK = "the database is available again"
REFUSED = "connection refused by {address}"
# Whoever asks first, while the server is still ending, is told that.
ENDING = (
    REFUSED,
    "the server closed the connection",
    "the server is shutting down",
    "the server is shutting down, or an administrator ended the connection",
    "a process of the server has crashed",
)
REASONS = {
    "fast": ENDING,
    "immediate": ENDING,
    "kill": ENDING,
    "suspend": ("the server does not answer: a write has taken longer than 1.5 s",),
}
NOT_FOR_OPERATORS = ("Traceback", "Errno", "Error", "0x", " object at ", "<")


@pytest.fixture(scope="module")
def postgres() -> Iterator[TcpPostgres]:
    directory = Path(tempfile.mkdtemp(prefix="hostsvc-tests-"))
    server = TcpPostgres(directory)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture
async def external_services(
    directory: Path, postgres: TcpPostgres, launch: Launch
) -> AsyncIterator[Services]:
    services = Services(directory, {"url": postgres.url}, launch)
    yield services
    await services.close()


async def reasons_of(client: Client) -> tuple[str, list[str]]:
    """Return the reasons that /readyz and /status/ give."""
    async with client.session.get(f"{client.url}/readyz") as response:
        readiness = await response.json()
    operator = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
    async with client.session.get(f"{client.url}/status/", headers=operator) as response:
        return readiness["detail"], (await response.json())["service"]["reasons"]


@pytest.mark.parametrize("way", REASONS)
async def test_outage_is_one_warning_and_one_line_at_its_end(
    external_services: Services, session: aiohttp.ClientSession, postgres: TcpPostgres, way: str
) -> None:
    service = await external_services.start()
    load = Load(await sign_up(session, service.url), seed=51)
    reasons = [reason.format(address=postgres.address) for reason in REASONS[way]]
    async with load.going_on():
        await load.acknowledged(20)
        since = len(service.log())
        away = postgres.away(way)
        await asyncio.to_thread(away.__enter__)
        warning = await line_of(service, since, event=UNAVAILABLE)
        readiness, (status,) = await reasons_of(load.client)
        await asyncio.to_thread(away.__exit__, None, None, None)
        await load.acknowledged(20)
    end = await line_of(service, since, event=BACK)
    lines = lines_of(service, since)
    assert warning["reason"] in reasons
    assert readiness == status
    assert status.startswith("The database has been unavailable since 20")
    assert status.endswith(tuple(f" UTC: {reason}." for reason in reasons))
    assert end["seconds"] > 0
    assert [line for line in lines if line["level"] != "info"] == [warning]
    assert [line["event"] for line in lines].count(BACK) == 1
    assert not [line for line in lines if line["logger"].startswith(("asyncio", "asyncpg", "aio", "psycopg"))]
    for text in (*map(json.dumps, lines), status):
        assert not [word for word in NOT_FOR_OPERATORS if word in text], text


async def test_service_ends_in_order_during_an_outage(
    external_services: Services, session: aiohttp.ClientSession, postgres: TcpPostgres
) -> None:
    service = await external_services.start()
    since = len(service.log())
    away = postgres.away("fast")
    await asyncio.to_thread(away.__enter__)
    warning = await line_of(service, since, event=UNAVAILABLE)
    service.terminate()
    exit_code = await service.exit_code()
    await asyncio.to_thread(away.__exit__, None, None, None)
    assert exit_code == 0
    assert [line for line in lines_of(service, since) if line["level"] != "info"] == [warning]


async def test_every_connection_lets_the_server_notice_a_vanished_host(postgres: TcpPostgres) -> None:
    async with connect(postgres.url) as connection:
        settings = DatabaseSettings(postgres.url)
        async with open_pool(settings, node=None) as pool, pool.spare() as spare:
            for each in (connection, pool, spare):
                assert await each.fetchval("SHOW tcp_user_timeout") == "4000"
                assert await each.fetchval("SHOW tcp_keepalives_idle") == "1"
