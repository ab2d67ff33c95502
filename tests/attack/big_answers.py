"""Attacks by answers: long lists of large rows, readers that stop reading, large single resources."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from urllib.parse import urlsplit

from tests.acceptance.client import Client
from tests.attack.findings import Finding, at_most, holds
from tests.attack.measuring import (
    SAMPLE_SECONDS,
    Memory,
    growth_after,
    memory_of,
    resident_mb,
    victim_works,
)
from tests.attack.target import AGENTS, Target, create_documents, delete_all

DOCUMENTS = "/api/defaults/documents/"
MEBIBYTE = 1 << 20
CONTENT_BYTES = 1_000_000
GROWTH_MB = 64
RETURN_SECONDS = 10.0
BUFFER_BYTES = 1 << 20
READING_SECONDS = 20.0
RECEIVE_BUFFER_BYTES = 64 << 10
STALLED_MB = 40
STALL_LIMIT_SECONDS = 35.0  # the limit of 30 s, and some time to notice
LATE_READ_SECONDS = 5.0
MAX_BUFFERED_BYTES = 10 << 20
NEXT = re.compile(r'<([^>]*)>; rel="next"')


async def big_lists(target: Target) -> list[Finding]:
    """Open lists of 1 MB rows many times at once, half of them without reading."""
    sizes = target.sizes
    await create_documents(target.attacker.key, sizes.list_rows, CONTENT_BYTES)
    before = resident_mb(target.pid)
    async with victim_works(target) as latencies, memory_of(target) as memory:
        with readers(target, f"{DOCUMENTS}?limit=1000", sizes.list_callers) as threads:
            await _until_read(threads, memory)
    left = await growth_after(target, before, GROWTH_MB, RETURN_SECONDS * sizes.patience)
    await delete_all(target.attacker.key, DOCUMENTS)
    grown = f"growth, {sizes.list_callers} callers of {sizes.list_rows} MB"
    if memory.is_too_much.is_set():
        grown += ", broken off"
    return [
        at_most(grown, memory.growth_mb, GROWTH_MB, "MB"),
        at_most("growth left some seconds later", left, GROWTH_MB, "MB"),
        at_most("another tenant's POST, p99", latencies.p99, 100 * sizes.patience, "ms"),
        latencies.failures,
    ]


async def stalled_readers(target: Target) -> list[Finding]:
    """Open a long list many times and read nothing of it, until the service should have hung up."""
    count = target.sizes.stalled_readers
    await create_documents(target.attacker.key, STALLED_MB, CONTENT_BYTES)
    async with memory_of(target) as memory:
        with requested(target, DOCUMENTS, count) as sockets:
            await asyncio.sleep(STALL_LIMIT_SECONDS)
            served = [each for each in sockets if await asyncio.to_thread(_is_still_served, each)]
    await delete_all(target.attacker.key, DOCUMENTS)
    return [
        at_most(
            f"readers not cut off after {STALL_LIMIT_SECONDS:.0f} s, of {count}", len(served), 0, "readers"
        ),
        at_most("growth", memory.growth_mb, GROWTH_MB, "MB"),
    ]


async def long_trace(target: Target) -> list[Finding]:
    """Read a trace with very many spans, eight times at once."""
    client, spans = target.attacker.key, target.sizes.spans
    trace = (await client.post("/api/tracing/traces/", agent=target.attacker.agent, name="Long"))["id"]
    for start in range(0, spans, 500):
        batch = [
            {"trace": trace, "name": f"step {number}"} for number in range(start, min(start + 500, spans))
        ]
        answer = await target.as_attacker("POST", "/api/tracing/spans/", json=batch)
        assert answer.status == 201, answer
    path = f"/api/tracing/traces/{trace}/"
    async with victim_works(target) as latencies:
        answers = await asyncio.gather(*(target.as_attacker("GET", path) for _ in range(8)))
        seen = len(_names(answers[0].text))
        longest_answer = max(len(each.text) for each in answers)
        following = answers[0]
        while (link := NEXT.search(following.headers.get("Link", ""))) and seen <= spans:
            parts = urlsplit(link[1])
            following = await target.as_attacker("GET", f"{parts.path}?{parts.query}")
            seen += len(_names(following.text))
            longest_answer = max(longest_answer, len(following.text))
    return [
        at_most(f"longest answer about {spans} spans", longest_answer, MEBIBYTE, "bytes"),
        holds("the pages hold every span once", seen == spans, f"{seen} spans"),
        at_most("another tenant's POST, longest", latencies.longest, 100 * target.sizes.patience, "ms"),
        latencies.failures,
    ]


def _names(text: str) -> list[str]:
    """Return the names of the spans in the JSON of a trace, without parsing megabytes of it."""
    return re.findall(r'"name":"(step \d+)"', text)


async def many_tags(target: Target) -> list[Finding]:
    """Give an agent ever more tags."""
    client, tags = target.attacker.key, target.sizes.tags
    agent = await client.create_agent()
    path, refused = f"{AGENTS}{agent}/tag/", 0
    for start in range(0, tags, 500):
        batch = [f"{number:05d}{'x' * 200}" for number in range(start, start + 500)]
        refused += (await target.as_attacker("POST", path, json={"tags": batch})).status == 400
    answer = await target.as_attacker("GET", f"{AGENTS}{agent}/")
    await target.as_attacker("DELETE", f"{AGENTS}{agent}/")
    return [
        at_most(f"tags kept of {tags}", len(answer.json()["tags"]), 1_000, "tags"),
        at_most("size of the agent", len(answer.text), MEBIBYTE, "bytes"),
        holds("further tags are refused with 400", refused > 0),
    ]


@contextmanager
def readers(target: Target, path: str, callers: int) -> Iterator[list[threading.Thread]]:
    """Request a list with each caller. The first half is read by threads, the others read nothing."""
    with requested(target, path, callers) as sockets:
        threads = [
            threading.Thread(target=_read_all, args=(each,), daemon=True) for each in sockets[: callers // 2]
        ]
        for thread in threads:
            thread.start()
        yield threads


@contextmanager
def requested(target: Target, path: str, callers: int) -> Iterator[list[socket.socket]]:
    """Send a request on each of several connections with small receive buffers."""
    sockets = [_request(target, target.attacker.key, path) for _ in range(callers)]
    try:
        yield sockets
    finally:
        for each in sockets:
            # Wakes the thread that reads from it, which close() would not.
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _request(target: Target, client: Client, path: str) -> socket.socket:
    connection = socket.socket(socket.AF_INET6 if ":" in target.host else socket.AF_INET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    connection.connect((target.host, target.port))
    if target.tls is not None:
        connection = target.tls.wrap_socket(connection, server_hostname=target.host)
    head = f"GET {path} HTTP/1.1\r\nHost: {target.host}\r\nAuthorization: {client.authorization}"
    connection.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode())
    return connection


def _read_all(connection: socket.socket) -> None:
    buffer, deadline = bytearray(BUFFER_BYTES), perf_counter() + READING_SECONDS
    try:
        while connection.recv_into(buffer) and perf_counter() < deadline:
            pass
    except OSError:
        return


def _is_still_served(connection: socket.socket) -> bool:
    """Return whether more of the list arrives than the buffers of both kernels have held.

    That is the only sign: a service that hangs up cannot tell a reader whose buffers are full.
    """
    connection.settimeout(LATE_READ_SECONDS)
    buffer, received = bytearray(BUFFER_BYTES), 0
    try:
        while (count := connection.recv_into(buffer)) and received < MAX_BUFFERED_BYTES:
            received += count
    except OSError:
        return False
    return received >= MAX_BUFFERED_BYTES


async def _until_read(threads: list[threading.Thread], memory: Memory) -> None:
    """Wait until every reader has ended, or the service has grown so much that it is better to stop."""
    while any(map(threading.Thread.is_alive, threads)) and not memory.is_too_much.is_set():  # noqa: ASYNC110
        await asyncio.sleep(SAMPLE_SECONDS)
