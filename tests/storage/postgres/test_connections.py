"""Connections: only servers that take writes are used, and each host of the URL has its own time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from storage.errors import (
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseRefused,
    DatabaseUnavailable,
    NoAnswer,
    RowLocked,
)
from storage.postgres.connections import (
    LEADER,
    MEMBER,
    MIGRATION,
    NODE,
    OLD_MEMBER,
    PARENTS,
    connect,
    host_urls,
)
from storage.postgres.doorbell import Doorbell
from storage.postgres.translation import translated
from supervisors.clock import SystemClock
from tests.storage.postgres.proxies.relay import relay
from tests.storage.postgres.read_only import read_only_database


@asynccontextmanager
async def silent_server() -> AsyncIterator[int]:
    """Yield the port of a server that accepts connections and never answers, as a stopped one does."""
    ended = asyncio.Event()

    async def keep_silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        ended.set()
        server.close()


@pytest.mark.parametrize(
    ("url", "each"),
    [
        ("postgresql://me:pw@a:1/x?sslmode=disable", ["postgresql://me:pw@a:1/x?sslmode=disable"]),
        ("postgresql://me:pw@a:1,b/x", ["postgresql://me:pw@a:1/x", "postgresql://me:pw@b/x"]),
        ("postgresql://[::1]:1,[::2]/x", ["postgresql://[::1]:1/x", "postgresql://[::2]/x"]),
        ("postgresql:///x?host=a,b", ["postgresql:///x?host=a", "postgresql:///x?host=b"]),
        (
            "postgresql:///x?host=a,b&port=1,2&user=u",
            ["postgresql:///x?host=a&port=1&user=u", "postgresql:///x?host=b&port=2&user=u"],
        ),
        (
            "postgresql:///x?host=a,b&port=1",
            ["postgresql:///x?host=a&port=1", "postgresql:///x?host=b&port=1"],
        ),
    ],
)
def test_url_is_split_into_one_for_each_host(url: str, each: list[str]) -> None:
    assert list(host_urls(url)) == each


async def test_host_that_refuses_or_keeps_silent_is_passed_over(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.postgres.connections.HOST_TIMEOUT_SECONDS", 0.3)
    async with relay(database_url) as (in_between, url), silent_server() as silent:
        url = url.replace("@", f"@127.0.0.2:{in_between.port},127.0.0.1:{silent},")
        async with connect(url) as connection:
            assert await connection.fetchval("SELECT 1") == 1
        assert in_between.connections == 1


async def test_error_names_every_host_and_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.postgres.connections.HOST_TIMEOUT_SECONDS", 0.3)
    async with silent_server() as silent:
        url = f"postgresql://me:secret@127.0.0.2:1,127.0.0.1:{silent}/x?sslmode=disable"
        with pytest.raises(
            DatabaseUnavailable,
            match=r"127\.0\.0\.2:1: connection refused.*; 127.*: the server does not answer",
        ) as raised:
            async with connect(url):
                pass
    assert "secret" not in str(raised.value)


async def test_read_only_database_is_not_connected(database_url: str) -> None:
    with read_only_database(database_url):
        with pytest.raises(DatabaseReadOnly, match="standby or allows reads only"):
            async with connect(database_url):
                pass
        doorbell = Doorbell(lambda _: None, SystemClock().now, lambda _: None)
        with pytest.raises(DatabaseUnavailable, match="standby or allows reads only"):
            async with doorbell.listening(database_url, SystemClock().sleep):
                pass


@pytest.mark.parametrize(
    ("error", "translation"),
    [
        (asyncpg.DiskFullError("full"), DatabaseFull),
        (asyncpg.PostgresIOError("could not write"), DatabaseUnavailable),
        (asyncpg.TooManyConnectionsError("too many"), DatabaseUnavailable),
        (asyncpg.ReadOnlySQLTransactionError("read only"), DatabaseReadOnly),
        (asyncpg.QueryCanceledError("statement timeout"), DatabaseUnavailable),
        (asyncpg.LockNotAvailableError("locked"), RowLocked),
        (asyncpg.InsufficientPrivilegeError("denied"), DatabaseRefused),
        (TimeoutError(), NoAnswer),
        (OSError(24, "Too many open files"), DatabaseUnavailable),
    ],
    ids=lambda value: getattr(type(value), "__name__", None),
)
def test_error_of_asyncpg_becomes_storage_error(error: Exception, translation: type[Exception]) -> None:
    with pytest.raises(translation) as raised, translated():
        raise error
    assert type(raised.value) is translation


def test_full_disk_is_told_in_one_line() -> None:
    full = asyncpg.DiskFullError("could not extend file: No space left on device")
    full.hint = "Check free disk space."
    with pytest.raises(DatabaseFull) as raised, translated():
        raise full
    assert str(raised.value) == (
        "the disk of the database is full: could not extend file: No space left on device"
    )


# Until the transaction's end: a session's locks outlive the closing of its connection for a moment.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock($1, $2)"


async def test_locks_are_independent_of_each_other(empty_database_url: str) -> None:
    locks = (LEADER, MIGRATION, PARENTS, *((kind, LEADER[1]) for kind in (NODE, MEMBER, OLD_MEMBER)))
    async with connect(empty_database_url) as holder:
        for held in locks:
            await holder.execute("SELECT pg_advisory_lock($1, $2)", *held)
            async with connect(empty_database_url) as other:
                free = [lock for lock in locks if await other.fetchval(TRY_LOCK, *lock)]
            assert free == [lock for lock in locks if lock != held]
            await holder.execute("SELECT pg_advisory_unlock_all()")
