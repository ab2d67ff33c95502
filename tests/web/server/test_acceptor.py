"""Accepting connections when the process has no descriptors left."""

import asyncio
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from structlog.testing import capture_logs

from tests.web.server.clients import GET, small_server
from web.server.settings import ConnectionSettings


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Use up all descriptors of this process, under a lower limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_new_client_takes_the_descriptor_of_an_idle_one() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as late:
        late.setblocking(False)
        async with small_server(ConnectionSettings()) as server:
            idle = await server.connect(data=GET)
            await idle.answer()
            with no_descriptors_left(), capture_logs() as logged:
                await loop.sock_connect(late, server.address)
                await loop.sock_sendall(late, GET)
                assert await idle.end() == b""
                async with asyncio.timeout(5):
                    assert (await loop.sock_recv(late, 12)) == b"HTTP/1.1 200"
    assert [line["event"][:30] for line in logged if line["log_level"] == "error"] == [
        "connections cannot be accepted"
    ]


async def test_lack_of_descriptors_neither_spins_nor_floods_the_log() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as late:
        late.setblocking(False)
        async with small_server(ConnectionSettings()) as server:
            with no_descriptors_left(), capture_logs() as logged:
                await loop.sock_connect(late, server.address)
                await loop.sock_sendall(late, GET)
                began = time.process_time()
                received = asyncio.create_task(loop.sock_recv(late, 12))
                done, _ = await asyncio.wait({received}, timeout=0.7)
                assert not done
                assert time.process_time() - began < 0.35
            assert len([line for line in logged if line["log_level"] == "error"]) == 1
            async with asyncio.timeout(5):
                assert await received == b"HTTP/1.1 200"
