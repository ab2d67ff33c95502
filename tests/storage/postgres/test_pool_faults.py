"""The pool while sessions are read-only, old or dead, and while statements get no answer."""

import asyncio
import gc
from contextlib import suppress

import pytest

from storage.errors import DatabaseReadOnly, DatabaseUnavailable, NoAnswer
from storage.ids import new_id
from storage.postgres.connections import SERVER_SETTINGS
from storage.postgres.node import STUCK_SECONDS
from storage.postgres.pool import Connection, DatabaseSettings, Pool, PoolSize, open_pool
from tests.patience import PATIENCE_SECONDS
from tests.storage.factories import NOW
from tests.storage.postgres.proxies.relay import relay
from tests.storage.postgres.read_only import read_only_database
from tests.storage.postgres.test_pool import (
    INSERT_ORGANIZATION,
    count_by_another_client,
    end_connections,
)

COUNT_SLEEPING = (
    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
)
SHORT_SECONDS = 1.0  # and yet longer than a slow machine takes for a statement that does nothing
IDLE_LIMIT = "idle_in_transaction_session_timeout"
TAKE_LOCK = "SELECT pg_advisory_xact_lock(7, 7)"
READ_ONLY_SESSION = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"


async def test_write_on_read_only_session_is_repeated_on_another(database_url: str) -> None:
    async def work(connection: Connection) -> None:
        await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)

    async with open_pool(DatabaseSettings(url=database_url, pool_size=2), node=None) as pool:
        await asyncio.gather(pool.execute(READ_ONLY_SESSION), pool.execute(READ_ONLY_SESSION))
        await pool.write(work, "write")
        assert await pool.fetchval("SHOW transaction_read_only") == "off"
    assert await count_by_another_client(database_url) == 1


async def test_transaction_on_read_only_session_fails_once(database_url: str) -> None:
    async def write(pool: Pool) -> None:
        async with pool.transaction() as connection:
            await connection.execute(INSERT_ORGANIZATION, new_id(), "one", NOW)

    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=None) as pool:
        await pool.execute(READ_ONLY_SESSION)
        with pytest.raises(DatabaseReadOnly):
            await write(pool)
        await write(pool)


async def test_pool_writes_again_when_database_is_no_longer_read_only(database_url: str) -> None:
    failures: list[DatabaseUnavailable] = []
    async with open_pool(DatabaseSettings(url=database_url), node=None) as pool:
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
    read = "SELECT pg_backend_pid(), pg_sleep(0.001)"
    async with open_pool(DatabaseSettings(url=database_url, pool_size=2), node=None) as pool:
        async with pool.transaction() as busy:
            kept, replaced = await busy.fetchval(read), await pool.fetchval(read)
            reading = asyncio.gather(*(pool.fetchval(read) for _ in range(20)))
            await pool.renew_connections()
            assert (await reading)[-1] != replaced
            assert await busy.fetchval(read) == kept
        assert pool.size().connections <= 2


async def test_spare_connection_needs_no_turn(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=None) as pool:
        async with pool.transaction(), pool.spare() as connection:
            assert await connection.fetchval("SELECT 1") == 1
        assert pool.size() == PoolSize(connections=1, idle=1, waiting=0)


async def test_server_ends_a_statement_whose_connection_was_dropped(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, pool_size=1, command_timeout_seconds=SHORT_SECONDS)
    async with open_pool(settings, node=None) as pool:
        with pytest.raises(NoAnswer):
            await pool.execute("SELECT pg_sleep(60)")
        while await pool.fetchval(COUNT_SLEEPING):  # noqa: ASYNC110 -- the server tells nobody
            await asyncio.sleep(0.05)


async def test_transaction_does_not_wait_for_its_timed_out_statement(database_url: str) -> None:
    async def sleep(pool: Pool) -> None:
        async with pool.transaction() as connection:
            await connection.execute("SELECT pg_sleep(60)")

    settings = DatabaseSettings(url=database_url, pool_size=1, command_timeout_seconds=SHORT_SECONDS)
    async with open_pool(settings, node=None) as pool:
        with pytest.raises(NoAnswer):
            await sleep(pool)
        assert await pool.fetchval("SELECT 1") == 1


async def test_caller_does_not_wait_for_its_timed_out_statement(database_url: str) -> None:
    settings = DatabaseSettings(url=database_url, pool_size=1, command_timeout_seconds=SHORT_SECONDS)
    async with open_pool(settings, node=None) as pool:
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(NoAnswer):
                await pool.execute("SELECT pg_sleep(600)")


async def test_locks_of_a_transaction_that_stands_still_are_released(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SERVER_SETTINGS[IDLE_LIMIT] == "5s"
    assert STUCK_SECONDS > 5
    monkeypatch.setitem(SERVER_SETTINGS, IDLE_LIMIT, "200ms")
    async with (
        open_pool(DatabaseSettings(url=database_url), node=None) as frozen,
        open_pool(DatabaseSettings(url=database_url), node=None) as other,
    ):
        with pytest.raises(DatabaseUnavailable):
            await _stand_still(frozen, other)
        assert await frozen.fetchval("SELECT 1") == 1


async def _stand_still(frozen: Pool, other: Pool) -> None:
    """Take a lock in a transaction, and go on when the other one has got it."""
    async with frozen.transaction() as connection:
        await connection.execute(TAKE_LOCK)
        await other.execute(TAKE_LOCK)
        await connection.execute("SELECT 1")


async def test_cancelled_caller_does_not_wait_for_a_silent_server(database_url: str) -> None:
    async def probe(pool: Pool) -> None:
        async with asyncio.timeout(0.1), pool.spare() as connection:
            in_between.fall_silent()
            await connection.execute("SELECT 1")

    async with relay(database_url) as (in_between, url):
        settings = DatabaseSettings(url=url, pool_size=1, acquire_timeout_seconds=60)
        async with open_pool(settings, node=None) as pool:
            in_between.fall_silent()
            began = asyncio.get_running_loop().time()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await pool.execute("SELECT 1")
            with pytest.raises(TimeoutError):
                await probe(pool)
            assert asyncio.get_running_loop().time() - began < settings.acquire_timeout_seconds


async def test_expired_connection_to_silent_server_fails_no_finished_block(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with relay(database_url) as (in_between, url):
        settings = DatabaseSettings(url=url, pool_size=1, acquire_timeout_seconds=0.1)
        async with open_pool(settings, node=None) as pool:
            async with pool.spare() as connection:
                assert await connection.fetchval("SELECT 1") == 1
                await pool.renew_connections()
                in_between.fall_silent()  # before the connection is returned, and closed because it is old
            assert await pool.fetchval("SELECT 1") == 1  # on a new one; the old one is closed meanwhile
        gc.collect()
    assert not caplog.records
