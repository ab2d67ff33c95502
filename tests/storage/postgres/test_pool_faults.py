"""The pool while sessions are read-only, old or dead, and while statements get no answer."""

import asyncio
from contextlib import closing, suppress

import psycopg2
import pytest

from storage.errors import DatabaseReadOnly, DatabaseUnavailable, NoAnswer
from storage.ids import new_id
from storage.postgres.pool import DatabaseSettings, Pool, PoolSize, open_pool
from tests.storage.factories import NOW
from tests.storage.postgres.read_only import read_only_database
from tests.storage.postgres.test_pool import (
    INSERT_ORGANIZATION,
    count_by_another_client,
    end_connections,
)

END_OTHERS_AND_WAIT = """
    SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
READ_ONLY_SESSION = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"


async def test_write_on_read_only_session_is_repeated_on_another(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=2), epoch=None) as pool:
        await asyncio.gather(pool.execute(READ_ONLY_SESSION), pool.execute(READ_ONLY_SESSION))
        await pool.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
        assert await pool.fetchval("SHOW transaction_read_only") == "off"
    assert await count_by_another_client(database_url) == 1


async def test_transaction_on_read_only_session_fails_once(database_url: str) -> None:
    async def write(pool: Pool) -> None:
        async with pool.transaction() as connection:
            await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)

    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), epoch=None) as pool:
        await pool.execute(READ_ONLY_SESSION)
        with pytest.raises(DatabaseReadOnly):
            await write(pool)
        await write(pool)


async def test_pool_writes_again_when_database_is_no_longer_read_only(database_url: str) -> None:
    failures: list[DatabaseUnavailable] = []
    async with open_pool(DatabaseSettings(url=database_url), epoch=None) as pool:
        pool.on_failure = failures.append
        with read_only_database(database_url):
            await end_connections(database_url)
            for _ in range(5):
                with suppress(DatabaseUnavailable):
                    await pool.execute(INSERT_ORGANIZATION, new_id(), "never", NOW)
        assert [type(failure) for failure in failures[-3:]] == [DatabaseReadOnly] * 3
        await pool.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
    assert await count_by_another_client(database_url) == 1


async def test_old_connections_are_replaced_without_failing_requests(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, pool_size=2, max_connection_seconds=0.05)
    read = "SELECT pg_backend_pid(), pg_sleep(0.001)"
    async with open_pool(settings, epoch=None) as pool:
        async with pool.transaction() as busy:
            kept, replaced = await busy.fetchval(read), await pool.fetchval(read)
            await asyncio.sleep(0.06)  # until both are old
            reading = asyncio.gather(*(pool.fetchval(read) for _ in range(20)))
            await pool.renew_connections()
            assert (await reading)[-1] != replaced
            assert await busy.fetchval(read) == kept
        assert pool.size().connections <= 3


async def test_dead_connections_are_replaced(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), epoch=None) as pool:
        await pool.fetchval("SELECT 1")
        await end_connections(database_url)
        async with asyncio.timeout(5):
            while pool.size().connections:  # noqa: ASYNC110 -- until the end has been read
                await asyncio.sleep(0.01)
        await pool.renew_connections()
        assert await pool.fetchval("SELECT 1") == 1


async def test_connections_that_the_server_is_closing_are_not_used(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=2), epoch=None) as pool:
        await asyncio.gather(pool.fetchval("SELECT 1"), pool.fetchval("SELECT 1"))
        with closing(psycopg2.connect(database_url)) as other, other.cursor() as cursor:
            cursor.execute(END_OTHERS_AND_WAIT)  # blocks the event loop, so it reads nothing
        await pool.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)
        assert await pool.fetchval("SELECT count(*) FROM organization") == 1


async def test_young_connections_are_not_replaced(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), epoch=None) as pool:
        process = await pool.fetchval("SELECT pg_backend_pid()")
        await pool.renew_connections()
        assert await pool.fetchval("SELECT pg_backend_pid()") == process


async def test_spare_connection_needs_no_turn(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), epoch=None) as pool:
        async with pool.transaction(), pool.spare() as connection:
            assert await connection.fetchval("SELECT 1") == 1
        assert pool.size() == PoolSize(connections=2, idle=2, waiting=0)


async def test_transaction_does_not_wait_for_its_timed_out_statement(database_url: str) -> None:
    async def sleep(pool: Pool) -> None:
        async with pool.transaction() as connection:
            await connection.execute("SELECT pg_sleep(60)")

    settings = DatabaseSettings(url=database_url, pool_size=1, command_timeout_seconds=0.05)
    async with open_pool(settings, epoch=None) as pool:
        with pytest.raises(NoAnswer):
            await sleep(pool)
        assert await pool.fetchval("SELECT 1") == 1


async def test_caller_does_not_wait_for_its_timed_out_statement(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, pool_size=1, command_timeout_seconds=0.05)
    async with open_pool(settings, epoch=None) as pool:
        async with asyncio.timeout(settings.acquire_timeout_seconds / 2):
            with pytest.raises(NoAnswer):
                await pool.execute("SELECT pg_sleep(60)")
