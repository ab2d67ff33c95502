"""HTTP as bytes, for what no client library would send."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import perf_counter

from tests.attack.target import Target

STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
CONNECTIONS = 20
SILENT_SECONDS = 4.0  # a service that has answered nothing by then waits for more
QUIET_SECONDS = 0.5  # likewise after an answer


@dataclass(frozen=True, slots=True)
class Exchange:
    """All bytes that came back, and whether the service then closed the connection."""

    received: bytes
    is_closed: bool

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in STATUS_LINE.findall(self.received)]

    @property
    def status(self) -> int:
        """Return the first status; 0 if there was no answer."""
        return next(iter(self.statuses), 0)

    @property
    def head(self) -> str:
        return self.received.partition(b"\r\n\r\n")[0].decode("latin-1")


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(target.host, target.port, ssl=target.tls)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def exchange(target: Target, sent: bytes, seconds: float | None = None) -> Exchange:
    """Send bytes on a connection of their own, and read until the service closes it or falls silent.

    `seconds`: how long it may say nothing, where it must answer and close.
    """
    received = bytearray()
    async with connected(target) as (reader, writer):
        with suppress(OSError):
            writer.write(sent)
            await writer.drain()
        is_closed = False
        while not is_closed:
            try:
                async with asyncio.timeout(seconds or (QUIET_SECONDS if received else SILENT_SECONDS)):
                    data = await reader.read(1 << 16)
            except TimeoutError:
                break
            except OSError:
                data = b""
            received += data
            is_closed = not data
    return Exchange(bytes(received), is_closed)


async def exchange_each(
    target: Target, requests: Mapping[str, bytes], seconds: float | None = None
) -> dict[str, Exchange]:
    """Make several exchanges side by side, a connection for each; return them by name."""
    connections = asyncio.Semaphore(CONNECTIONS)

    async def one(sent: bytes) -> Exchange:
        async with connections:
            return await exchange(target, sent, seconds)

    exchanges = await asyncio.gather(*map(one, requests.values()))
    return dict(zip(requests, exchanges, strict=True))


async def send_endlessly(target: Target, first: bytes, piece: bytes, deadline: float) -> int:
    """Send `first` and then a piece again and again, on a new connection whenever the service closes one.

    Return how many connections that were.
    """
    opened = 0
    while perf_counter() < deadline:
        opened += 1
        with suppress(OSError):
            async with connected(target) as (_, writer):
                writer.write(first)
                while perf_counter() < deadline:
                    writer.write(piece)
                    await writer.drain()
    return opened


def head_of(target: Target, method: str, path: str, *lines: str) -> bytes:
    """Return the head of a request with these header lines."""
    first = (f"{method} {path} HTTP/1.1", f"Host: {target.host}:{target.port}")
    return ("\r\n".join((*first, *lines)) + "\r\n\r\n").encode("latin-1")
