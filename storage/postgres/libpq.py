"""Connections through libpq, made with aiopg.

libpq itself would look up host names while the whole event loop waits. When an address refuses, it would go
on to the next one on another socket, but aiopg would keep waiting on the old socket. So this module looks up
the names and tries each address with a connection of its own.

When a connection fails, libpq closes its socket before aiopg can stop the event loop from watching it. The
next socket often gets the same descriptor, and the loop refuses to watch it. So the loop watches a duplicate
of the descriptor. It stays open until aiopg, which may close a connection twice, has no use for it any more.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiopg
import psycopg2
import psycopg2.extensions

from storage.errors import DatabaseRefused, DatabaseUnavailable
from storage.postgres.connections import (
    CONNECT_TIMEOUT_SECONDS,
    HOST_TIMEOUT_SECONDS,
    WRITABLE,
    check_url,
    host_of,
    host_urls,
)
from storage.postgres.failure_reasons import failure_reason

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
            connection.raw.release()
    except (psycopg2.Error, OSError) as error:
        raise DatabaseUnavailable(failure_reason(error)) from error


async def _connect(url: str) -> aiopg.Connection:
    """Connect to the first address that accepts and takes writes, of the first host that has one."""
    with check_url():
        urls = host_urls(url)
    hosts = [(host_of(host_url), _parameters(host_url)) for host_url in urls]
    seconds = CONNECT_TIMEOUT_SECONDS if len(hosts) == 1 else HOST_TIMEOUT_SECONDS
    failures = []
    for host, parameters in hosts:
        try:
            async with asyncio.timeout(seconds):
                return await _connect_to_host(parameters)
        except (psycopg2.OperationalError, OSError) as error:
            failures.append(failure_reason(error, host))
    raise DatabaseUnavailable("; ".join(failures))


def _parameters(host_url: str) -> Target:
    """Return the connection parameters in the URL of one host."""
    try:
        parts: Target = psycopg2.extensions.parse_dsn(host_url)
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
    made: list[_WatchedConnection] = []

    def make(*args: Any) -> _WatchedConnection:
        made.append(_WatchedConnection(*args))
        return made[-1]

    try:
        return await aiopg.connect(
            # No timeouts of aiopg's own: it uses `asyncio.wait_for`, which before Python 3.12 loses a
            # cancellation that arrives together with the answer.
            timeout=None,  # type: ignore[arg-type]
            enable_hstore=False,
            enable_json=False,
            enable_uuid=False,
            connection_factory=make,
            **target,
        )
    except BaseException:
        for connection in made:
            connection.release()
        raise


class _WatchedConnection(psycopg2.extensions.connection):  # type: ignore[misc] # the module has no types
    """A connection of libpq whose `fileno` stays valid until `release`."""

    _watched = -1

    def fileno(self) -> int:
        if self._watched < 0:
            self._watched = os.dup(super().fileno())
        return self._watched

    def release(self) -> None:
        if self._watched >= 0:
            os.close(self._watched)
            self._watched = -1
