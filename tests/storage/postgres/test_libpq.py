"""Connections through libpq: addresses are tried in turn, and errors are storage errors."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from socket import create_server, socketpair
from typing import Any

import pytest
import uvloop

from storage.errors import DatabaseRefused, DatabaseUnavailable
from storage.postgres.libpq import connect_by_libpq
from tests.storage.postgres.proxies.relay import relay


async def backend_pid(url: str) -> int:
    async with connect_by_libpq(url) as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT pg_backend_pid()")
        (pid,) = await cursor.fetchone()
        return int(pid)


async def test_unix_socket_is_connected(database_url: str) -> None:
    assert await backend_pid(database_url) > 0


@pytest.mark.parametrize("first_host", ["127.0.0.2:{port},", "127.0.0.2:{port},localhost:{port},"])
async def test_addresses_of_all_hosts_are_tried_in_turn(database_url: str, first_host: str) -> None:
    async with relay(database_url) as (in_between, url):
        hosts = first_host.format(port=in_between.port)
        assert await backend_pid(url.replace("@", f"@{hosts}")) > 0
        assert in_between.connections == 1


async def test_hostaddr_is_used_without_lookup(database_url: str) -> None:
    async with relay(database_url) as (in_between, url):
        url = url.replace("127.0.0.1", "no-such-host.invalid")
        assert await backend_pid(f"{url}&hostaddr=127.0.0.1") > 0
        assert in_between.connections == 1


async def test_error_of_a_statement_is_a_storage_error(database_url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match='relation "no_such_table" does not exist'):
        async with connect_by_libpq(database_url) as connection, connection.cursor() as cursor:
            await cursor.execute("SELECT * FROM no_such_table")


async def test_missing_server_raises_database_unavailable() -> None:
    with pytest.raises(DatabaseUnavailable, match="nobody-is-here"):
        async with connect_by_libpq("postgresql://postgres@/postgres?host=/nobody-is-here"):
            pass


async def test_unknown_url_parameter_is_refused(database_url: str) -> None:
    with pytest.raises(DatabaseRefused, match=r"the database URL cannot be used: .*no_such_thing"):
        async with connect_by_libpq(f"{database_url}&no_such_thing=1"):
            pass


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_refused_connections_leave_nothing_in_the_loop(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    with create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    descriptors = Path("/proc/self/fd")

    async def knock() -> None:
        counts = set()
        for _ in range(5):
            with pytest.raises(DatabaseUnavailable, match=f"^connection refused by 127.0.0.1:{port}$"):
                async with connect_by_libpq(f"postgresql://postgres@127.0.0.1:{port}/postgres"):
                    pass
            counts.add(len(os.listdir(descriptors)))
        assert len(counts) == 1, "descriptors leak"

    run(knock())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_connection_closed_twice_spares_the_next_descriptor(
    database_url: str, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def close_twice() -> None:
        async with connect_by_libpq(database_url) as connection:
            connection.close()
            one, other = socketpair()
            with other:
                _, writer = await asyncio.open_connection(sock=one)
                connection.close()
                writer.close()
                await writer.wait_closed()

    run(close_twice())
