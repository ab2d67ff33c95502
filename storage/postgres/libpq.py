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
from storage.postgres.connections import (
    CONNECT_TIMEOUT_SECONDS,
    HOST_TIMEOUT_SECONDS,
    WRITABLE,
    check_url,
    host_urls,
)

Target = dict[str, Any]


@asynccontextmanager
async def connect_by_libpq(url: str) -> AsyncIterator[aiopg.Connection]:
    """Yield a connection without statement timeouts. Raise DatabaseUnavailable for every error it meets."""
    try:
        connection = await _connect(url)
        try:
            yield connection
        finally:
            connection.close()
    except (psycopg2.Error, OSError) as error:
        raise DatabaseUnavailable(_reason(error)) from error


async def _connect(url: str) -> aiopg.Connection:
    """Connect to the first address that accepts and takes writes, of the first host that has one."""
    with check_url():
        urls = host_urls(url)
    hosts = [_parameters(host_url) for host_url in urls]
    seconds = CONNECT_TIMEOUT_SECONDS if len(hosts) == 1 else HOST_TIMEOUT_SECONDS
    failures = []
    for parameters in hosts:
        try:
            async with asyncio.timeout(seconds):
                return await _connect_to_host(parameters)
        except (psycopg2.OperationalError, OSError) as error:
            failures.append(_reason(error))
    raise DatabaseUnavailable("; ".join(failures))


def _parameters(host_url: str) -> Target:
    """Return the connection parameters in the URL of one host."""
    try:
        parts: Target = parse_dsn(host_url)
    except psycopg2.ProgrammingError as error:
        raise DatabaseRefused(f"the database URL cannot be used: {' '.join(str(error).split())}") from error
    return {"application_name": "hostsvc doorbell"} | parts | {"target_session_attrs": WRITABLE.value}


async def _connect_to_host(parameters: Target) -> aiopg.Connection:
    """Connect to the first address that accepts."""
    addresses = await _addresses(parameters)
    for address in addresses[:-1]:
        try:
            return await _connect_to(parameters | address)
        except (psycopg2.OperationalError, OSError):
            continue
    return await _connect_to(parameters | addresses[-1])


async def _addresses(parameters: Target) -> list[Target]:
    host = parameters.get("host", "")
    if "hostaddr" in parameters or not host or host.startswith(("/", "@")):
        return [{}]  # without a lookup: a given address, or a Unix socket
    addresses = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [{"hostaddr": str(address[0])} for *_, address in addresses]


async def _connect_to(target: Target) -> aiopg.Connection:
    return await aiopg.connect(
        # No timeouts of aiopg's own: it uses `asyncio.wait_for`, which before Python 3.12 loses a
        # cancellation that arrives together with the answer.
        timeout=None,  # type: ignore[arg-type]
        enable_hstore=False,
        enable_json=False,
        enable_uuid=False,
        **target,
    )


def _reason(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error).partition("\n")[0]
