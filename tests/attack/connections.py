"""Attacks by connections: heads that never end, connections that say nothing."""

import asyncio
from contextlib import AsyncExitStack, suppress
from time import perf_counter

from tests.attack.findings import Finding, at_most, holds, unmeasured
from tests.attack.measuring import open_descriptors, victim_works
from tests.attack.raw import connected, head_of
from tests.attack.target import Target
from tests.patience import PATIENCE_SECONDS

HEAD_SECONDS = 20.0  # the limit of 15 s, and some time to notice
DRIP_SECONDS = 0.5
WORK_SECONDS = 0.5


async def slow_heads(target: Target) -> list[Finding]:
    """Send request heads byte by byte, as the first and as a further request of a connection."""
    first, further = await asyncio.gather(
        _drip(target, b""), _drip(target, head_of(target, "GET", "/healthz"))
    )
    return [
        at_most("first head cut off after", first, HEAD_SECONDS * target.sizes.patience, "s"),
        at_most("further head cut off after", further, HEAD_SECONDS * target.sizes.patience, "s"),
    ]


async def _drip(target: Target, before: bytes) -> float:
    """Return after how many seconds the service hangs up on a head that goes on for ever."""
    async with connected(target) as (reader, writer):
        if before:
            writer.write(before)
            await reader.readuntil(b"\r\n\r\n")
        started = perf_counter()
        writer.write(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        ending = asyncio.create_task(_end_of(reader))
        while not ending.done() and perf_counter() - started < HEAD_SECONDS * target.sizes.patience + 5:
            with suppress(OSError):
                writer.write(b"a")
            await asyncio.wait([ending], timeout=DRIP_SECONDS)
        ending.cancel()
        return perf_counter() - started


async def _end_of(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        await reader.read()


async def half_open_connections(target: Target) -> list[Finding]:
    """Open many connections that send half a head or nothing, while another tenant works."""
    count, before = target.sizes.connections, open_descriptors(target.pid)
    refused = 0
    async with AsyncExitStack() as stack:
        for number in range(count):
            try:
                _, writer = await stack.enter_async_context(connected(target))
                if number % 2:
                    writer.write(b"POST /api/organizations/auth/login/ HTTP/1.1\r\nHost:")
            except OSError:
                refused += 1
        async with victim_works(target) as latencies:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not latencies.milliseconds:  # noqa: ASYNC110 -- a slow machine takes longer
                    await asyncio.sleep(WORK_SECONDS)
        descriptors = open_descriptors(target.pid)
        operator = await _operator_status(target)
    taken = None if before is None or descriptors is None else descriptors - before
    return [
        latencies.failures,
        at_most("another tenant's POST, p99", latencies.p99, 100 * target.sizes.patience, "ms"),
        operator,
        at_most("descriptors taken", taken, count + 50, "descriptors"),
        at_most("connections that the service refused", refused, count, "connections"),
    ]


async def _operator_status(target: Target) -> Finding:
    subject = "the operator gets /status/"
    if not target.operator_token:
        return unmeasured(subject, "no operator token")
    headers = {"Authorization": f"Bearer {target.operator_token}"}
    answer = await target.send("GET", "/status/", headers=headers)
    return holds(subject, answer.status == 200, f"status {answer.status}")
