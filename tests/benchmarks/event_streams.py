"""A thousand event streams: the memory and CPU of idle ones, and how soon an event reaches all of them."""

import asyncio
import time
from collections.abc import Sequence
from statistics import median
from typing import cast
from urllib.parse import urlsplit

from tests.acceptance.client import Client
from tests.benchmarks.bench import Bench
from tests.benchmarks.figures import Figure, Result, Unit
from tests.benchmarks.process_tree import cpu_seconds, resident_bytes

STREAMS = 1000
WARM_UP = 50  # streams that are opened and closed before, so that what all streams share is not counted
EVENTS = 20
IDLE_SECONDS = 20.0
KIB_MOST = 25.0
CPU_PERCENT_MOST = 1.0
REACH_MS_MOST = 100.0
PATH = "/api/events/"


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


async def _open(client: Client, count: int, arrived: asyncio.Event) -> list[Listener]:
    host, _, port = urlsplit(client.url).netloc.partition(":")
    head = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: {client.authorization}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    listeners = []
    for _ in range(count):
        _, listener = await loop.create_connection(lambda: Listener(head, arrived), host, int(port))
        await listener.opened.wait()
        listeners.append(listener)
    return listeners


async def measure(bench: Bench) -> Result:
    """Open the streams of one key, leave them alone, and then create notifications one by one."""
    async with bench.service({"limits": {"event_streams_per_caller": STREAMS}}) as service:
        client, pid = service.client, service.server.pid
        agent_id, arrived = await client.create_agent(), asyncio.Event()
        for listener in await _open(client, WARM_UP, arrived):
            listener.transport.abort()
        await asyncio.sleep(2)
        before = resident_bytes(pid)
        listeners = await _open(client, STREAMS, arrived)
        kib = (resident_bytes(pid) - before) / STREAMS / 1024
        busy = cpu_seconds(pid)
        await asyncio.sleep(IDLE_SECONDS)
        cpu = 100 * (cpu_seconds(pid) - busy) / IDLE_SECONDS
        counts = range(1, EVENTS + 1)
        reach = [await _reach(client, agent_id, listeners, count, arrived) for count in counts]
        for listener in listeners:
            listener.transport.abort()
    figures = [
        Figure("memory of a stream", kib, Unit.KIB, at_most=KIB_MOST),
        Figure("CPU while idle", cpu, Unit.PERCENT, at_most=CPU_PERCENT_MOST),
        Figure("event at the last stream after", median(reach), Unit.MS, at_most=REACH_MS_MOST),
        Figure("event at the last stream after, worst", max(reach), Unit.MS),
    ]
    return Result("streams", f"{STREAMS:,} event streams", figures)


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
