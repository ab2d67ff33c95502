"""Lists too long for memory, which some clients do not read."""

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psycopg2

from tests.acceptance.client import Client, Json, eventually, sign_up
from tests.acceptance.process import ServiceProcess
from tests.acceptance.services import OPERATOR_TOKEN, Services

NOTIFICATIONS = "/api/defaults/notifications/"
DOCUMENTS = "/api/defaults/documents/?limit=1000"
BODY = "x" * 400
MAX_GROWTH_BYTES = 40 << 20
MAX_GROWTH_BYTES_OF_LONG_ROWS = 64 << 20
STOPPED_READERS = 12  # fewer than the long lists that one organization may receive at a time
ROWS = 20_000
LONG_ROWS = 60  # of 1 MB
CALLERS = 14  # fewer than the long lists that one organization may receive at a time

FILL = """
INSERT INTO notification (organization_id, agent_id, title, body, priority, created_at)
SELECT organization_id, id, 'n' || n, %s, 'low', now() + n * interval '1 ms'
FROM agent, generate_series(1, %s) AS n
"""

FILL_DOCUMENTS = """
INSERT INTO document (id, organization_id, title, content, created_at, updated_at)
SELECT gen_random_uuid(), organization_id, 'd' || n, repeat('x', 1000000), now() + n * interval '1 ms', now()
FROM agent, generate_series(1, %s) AS n
"""


def peak_bytes(service: ServiceProcess) -> int:
    """Return the peak memory of the process since `reset_peak`."""
    lines = Path(f"/proc/{service.pid}/status").read_text().splitlines()
    [peak] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024


def reset_peak(service: ServiceProcess) -> None:
    Path(f"/proc/{service.pid}/clear_refs").write_text("5")


def resident_bytes(service: ServiceProcess) -> int:
    lines = Path(f"/proc/{service.pid}/status").read_text().splitlines()
    [resident] = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(resident) * 1024


def stopped_reader(client: Client, path: str = NOTIFICATIONS) -> socket.socket:
    """Request the list and read nothing of it."""
    address = urlsplit(client.url)
    reader = socket.create_connection((address.hostname, address.port))
    head = f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: {client.authorization}"
    reader.sendall(f"{head}\r\n\r\n".encode())
    return reader


async def test_long_list_is_streamed_despite_stopped_readers(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    service = await services.start()
    client = await sign_up(session, service.url)
    operator = Client(session, service.url, f"Bearer {OPERATOR_TOKEN}")
    agent = await client.create_agent()
    connection = psycopg2.connect(database_url)
    with connection, connection.cursor() as cursor:
        cursor.execute(FILL, (BODY, ROWS))
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
        assert [each["title"] for each in whole] == [f"n{n}" for n in range(ROWS, 0, -1)]
        assert (await client.notify(agent))["cleared"] is False
        await eventually(connections_are_idle, "stopped readers to hold no connection")
        assert peak_bytes(service) - before < MAX_GROWTH_BYTES
        service.terminate()
        assert await service.exit_code() == 0


async def read_documents(client: Client, max_bytes: int) -> int:
    """Request the long documents and read the beginning of the answer; return its length."""
    headers, count = {"Authorization": client.authorization}, 0
    async with client.session.get(client.url + DOCUMENTS, headers=headers) as answer:
        assert answer.status == 200
        async for piece in answer.content.iter_chunked(1 << 18):
            count += len(piece)
            if count >= max_bytes:
                break
    return count


async def test_pages_of_long_rows_hold_little_memory(
    services: Services, session: aiohttp.ClientSession, database_url: str
) -> None:
    """Half of the callers read nothing. Before lists were bounded in bytes, each held its whole page."""
    service = await services.start()
    owner, neighbour = await sign_up(session, service.url), await sign_up(session, service.url)
    await owner.create_agent()
    connection = psycopg2.connect(database_url)
    with connection, connection.cursor() as cursor:
        cursor.execute(FILL_DOCUMENTS, (LONG_ROWS,))
    connection.close()
    busy = await neighbour.create_agent()
    keys = [await owner.post("/api/organizations/api-keys/", name=f"k{n}") for n in range(CALLERS)]
    clients = [Client(session, service.url, f"Bearer {key['key']}") for key in keys]
    reset_peak(service)
    before = peak_bytes(service)

    async def memory_is_back() -> bool | None:
        return resident_bytes(service) - before < MAX_GROWTH_BYTES_OF_LONG_ROWS or None

    with ExitStack() as readers:
        for client in clients[::2]:
            readers.enter_context(stopped_reader(client, DOCUMENTS))
        lengths = await asyncio.gather(*(read_documents(client, 20_000_000) for client in clients[1::2]))
        assert min(lengths) >= 20_000_000
        assert (await neighbour.notify(busy))["cleared"] is False
        assert peak_bytes(service) - before < MAX_GROWTH_BYTES_OF_LONG_ROWS
    await eventually(memory_is_back, "the memory of the lists to be free again")
