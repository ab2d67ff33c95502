"""A thousand event streams: the memory and CPU of idle ones, and how soon an event reaches all of them."""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import cast
from urllib.parse import urlsplit

import aiohttp

from tests.acceptance.client import Client, sign_up
from tests.acceptance.process import Sections, serving

STREAMS = 1000
WARM_UP = 50  # streams that are opened and closed before, so that what all streams share is not counted
EVENTS = 20
IDLE_SECONDS = 20.0
KIB_MOST = 25.0
CPU_PERCENT_MOST = 1.0
REACH_MS_MOST = 100.0
PATH = "/api/events/"


@dataclass(frozen=True, slots=True)
class Row:
    """The memory of a stream, the CPU of all idle ones, and how soon the last stream showed each event."""

    kib: float
    cpu_percent: float
    reach_ms: Sequence[float]

    @property
    def met(self) -> bool:
        is_small = self.kib <= KIB_MOST and self.cpu_percent <= CPU_PERCENT_MOST
        return is_small and median(self.reach_ms) <= REACH_MS_MOST

    def __str__(self) -> str:
        return (
            f"{STREAMS:,} event streams\n"
            f"  memory    {self.kib:.1f} KiB each (bar {KIB_MOST:g})\n"
            f"  idle CPU  {self.cpu_percent:.2f} % (bar {CPU_PERCENT_MOST:g})\n"
            f"  event at the last stream after {median(self.reach_ms):.0f} ms, at most "
            f"{max(self.reach_ms):.0f} (bar for the median {REACH_MS_MOST:g})"
        )


class Listener(asyncio.Protocol):
    """A stream that counts the events that it gets."""

    def __init__(self, head: bytes, arrived: asyncio.Event) -> None:
        self._head = head
        self._arrived = arrived
        self.opened = asyncio.Event()
        self.events = 0
        self.last_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        if b"\nid: " in data or b"\nretry: " in data:
            self.opened.set()
        if count := data.count(b"\nevent: "):
            self.events += count
            self.last_at = time.perf_counter()
            self._arrived.set()


async def _open(url: str, client: Client, count: int, arrived: asyncio.Event) -> list[Listener]:
    host, _, port = urlsplit(url).netloc.partition(":")
    head = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: {client.authorization}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    listeners = []
    for _ in range(count):
        _, listener = await loop.create_connection(lambda: Listener(head, arrived), host, int(port))
        await listener.opened.wait()
        listeners.append(listener)
    return listeners


async def measure(directory: Path, database_url: str) -> Row:
    """Open the streams of one key, leave them alone, and then create notifications one by one."""
    sections: Sections = {
        "server": {"port": 0},
        "database": {"url": database_url},
        "limits": {"event_streams_per_caller": STREAMS},
    }
    async with serving(directory, "service", sections) as service, aiohttp.ClientSession() as session:
        client = await sign_up(session, service.url)
        agent_id, arrived = await client.create_agent(), asyncio.Event()
        for listener in await _open(service.url, client, WARM_UP, arrived):
            listener.transport.abort()
        await asyncio.sleep(2)
        before = _resident_bytes(service.pid)
        listeners = await _open(service.url, client, STREAMS, arrived)
        kib = (_resident_bytes(service.pid) - before) / STREAMS / 1024
        busy = _cpu_seconds(service.pid)
        await asyncio.sleep(IDLE_SECONDS)
        cpu = 100 * (_cpu_seconds(service.pid) - busy) / IDLE_SECONDS
        counts = range(1, EVENTS + 1)
        reach = [await _reach(client, agent_id, listeners, count, arrived) for count in counts]
        for listener in listeners:
            listener.transport.abort()
    return Row(kib, cpu, reach)


async def _reach(
    client: Client, agent_id: str, listeners: Sequence[Listener], count: int, arrived: asyncio.Event
) -> float:
    """Return the milliseconds from the request for a notification to the last stream that shows it."""
    began = time.perf_counter()
    await client.notify(agent_id, priority="low")
    while any(listener.events < count for listener in listeners):
        arrived.clear()
        await arrived.wait()
    return 1000 * (max(listener.last_at for listener in listeners) - began)


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _cpu_seconds(pid: int) -> float:
    """Return the time of the process and of the kernel for it."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
