"""Whole requests as sent over the wire, and the load generators that send them from another process."""

import asyncio
import json
import sys
from collections.abc import Sequence
from tempfile import NamedTemporaryFile
from urllib.parse import urlsplit

from tests.acceptance.client import Client
from tests.benchmarks.bench import Server
from tests.benchmarks.connection import CONNECTIONS
from tests.benchmarks.open_loop import Answer
from tests.benchmarks.rounds import Sample

NOTIFICATIONS = "/api/defaults/notifications/"


def get_request(path: str, client: Client | None = None) -> str:
    return _request("GET", path, client)


def post_request(path: str, body: object, client: Client | None = None) -> str:
    return _request("POST", path, client, json.dumps(body))


def notification_request(path: str, agent: str, client: Client | None = None, priority: str = "low") -> str:
    """Return the request for a notification of common size; a low one wakes nobody."""
    body = {
        "agent": agent,
        "title": "Delivery report",
        "body": "The parcel with the spare parts has arrived at the front desk.",
        "priority": priority,
    }
    return post_request(path, body, client)


async def load(
    server: Server, requests: Sequence[str], seconds: float, connections: int = CONNECTIONS
) -> Sample:
    """Send these requests over and over, as fast as they are answered, and return what each has cost."""
    before = server.cpu()
    printed = json.loads(await generate("load", requests, server.urls, connections, seconds))
    used = [now - then for then, now in zip(before, server.cpu(), strict=True)]
    operations = printed["operations"]
    return Sample(operations / printed["seconds"], operations, used[0], used[1], printed["busy"])


async def send_at_rate(
    server: Server, requests: Sequence[str], a_second: float, seconds: float
) -> list[Answer]:
    """Send these requests in turn, each at its time, however long the answers take."""
    with NamedTemporaryFile() as output:
        await generate("open_loop", requests, server.urls, a_second, seconds, output.name)
        return [Answer(*values) for values in json.load(output)]


async def generate(module: str, requests: object, urls: Sequence[str], *arguments: object) -> bytes:
    """Run a load generator in another process and return what it prints."""
    addresses = ",".join(urlsplit(url).netloc for url in urls)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"tests.benchmarks.{module}", addresses, *map(str, arguments)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(json.dumps(requests).encode())
    if process.returncode:
        raise RuntimeError(f"the load generator {module} failed against {addresses}")
    return output


def _request(method: str, path: str, client: Client | None, body: str = "") -> str:
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if client is not None:
        head.append(f"Authorization: {client.authorization}")
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body.encode())}"]
    return "\r\n".join([*head, "", body])
