"""A list too long for memory, which other clients stop reading in the middle."""

import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psycopg2
import pytest

from tests.acceptance.client import Client, Json, eventually, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import OPERATOR_TOKEN, Services

NOTIFICATIONS = "/api/defaults/notifications/"
BODY = "x" * 400
MAX_GROWTH_BYTES = 40 << 20
STOPPED_READERS = 50

FILL = """
INSERT INTO notification (organization_id, agent_id, title, body, priority, created_at)
SELECT organization_id, id, 'n' || n, %s, 'low', now() + n * interval '1 ms'
FROM agent, generate_series(1, %s) AS n
"""


def peak_bytes(service: ServiceProcess) -> int:
    """Return the peak memory of the process since `reset_peak`."""
    lines = Path(f"/proc/{service.pid}/status").read_text().splitlines()
    [peak] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024


def reset_peak(service: ServiceProcess) -> None:
    Path(f"/proc/{service.pid}/clear_refs").write_text("5")


def stopped_reader(client: Client) -> socket.socket:
    """Request the whole list and read nothing of it."""
    address = urlsplit(client.url)
    reader = socket.create_connection((address.hostname, address.port))
    head = f"GET {NOTIFICATIONS} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: {client.authorization}"
    reader.sendall(f"{head}\r\n\r\n".encode())
    return reader


@pytest.mark.parametrize("rows", [5_000, pytest.param(20_000, marks=pytest.mark.slow)])
async def test_long_list_is_streamed_despite_stopped_readers(
    services: Services, session: aiohttp.ClientSession, database_url: str, rows: int
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")
    agent = await client.create_agent()
    connection = psycopg2.connect(database_url)
    with connection, connection.cursor() as cursor:
        cursor.execute(FILL, (BODY, rows))
    connection.close()
    reset_peak(service)
    before = peak_bytes(service)

    async def connections_are_idle() -> Json | None:
        database: Json = (await operator.get("/status/"))["database"]
        return database if database["idle"] == database["connections"] else None

    with ExitStack() as readers:
        for _ in range(STOPPED_READERS):
            readers.enter_context(stopped_reader(client))
        whole = await client.get(NOTIFICATIONS)
        assert [each["title"] for each in whole] == [f"n{n}" for n in range(rows, 0, -1)]
        assert (await client.notify(agent))["cleared"] is False
        await eventually(connections_are_idle, "stopped readers to hold no connection")
        assert peak_bytes(service) - before < MAX_GROWTH_BYTES
        service.terminate()
        assert await service.exit_code() == 0
