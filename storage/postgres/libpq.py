"""Connections through libpq, made with aiopg.

libpq itself would look up host names while the whole event loop waits. When an address refuses, it would go
on to the next one on another socket, but aiopg would keep waiting on the old socket. So this module looks up
the names and tries each address with a connection of its own.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiopg
import psycopg2
from psycopg2.extensions import parse_dsn

from storage.errors import DatabaseRefused, DatabaseUnavailable

CONNECT_TIMEOUT_SECONDS = 10.0

Target = dict[str, Any]


@asynccontextmanager
async def connect_by_libpq(url: str) -> AsyncIterator[aiopg.Connection]:
    """Yield a connection without statement timeouts. Raise DatabaseUnavailable for every error it meets."""
    try:
        connection = await _connect(await _targets(url))
        try:
            yield connection
        finally:
            connection.close()
    except (psycopg2.Error, OSError) as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else str(error).partition("\n")[0]
        raise DatabaseUnavailable(reason) from error


async def _targets(url: str) -> list[Target]:
    """Return the connection parameters of the URL, once for each address of each of its hosts."""
    try:
        parts: Target = {"application_name": "hostsvc doorbell"} | parse_dsn(url)
    except psycopg2.ProgrammingError as error:
        raise DatabaseRefused(f"the database URL cannot be used: {' '.join(str(error).split())}") from error
    if "hostaddr" in parts:
        return [parts]
    hosts, ports = parts.pop("host", "").split(","), parts.pop("port", "").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    targets: list[Target] = []
    for host, port in zip(hosts, ports, strict=True):
        target = parts | ({"host": host} if host else {}) | ({"port": port} if port else {})
        targets += [target | address for address in await _addresses(host)]
    return targets


async def _addresses(host: str) -> list[Target]:
    if not host or host.startswith(("/", "@")):
        return [{}]  # a Unix socket
    addresses = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [{"hostaddr": str(address[0])} for *_, address in addresses]


async def _connect(targets: list[Target]) -> aiopg.Connection:
    """Connect to the first target that accepts."""
    for target in targets[:-1]:
        try:
            return await _connect_to(target)
        except (psycopg2.OperationalError, OSError):
            continue
    return await _connect_to(targets[-1])


async def _connect_to(target: Target) -> aiopg.Connection:
    async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
        return await aiopg.connect(
            # No timeouts of aiopg's own: it uses `asyncio.wait_for`, which before Python 3.12 loses a
            # cancellation that arrives together with the answer.
            timeout=None,  # type: ignore[arg-type]
            enable_hstore=False,
            enable_json=False,
            enable_uuid=False,
            **target,
        )
