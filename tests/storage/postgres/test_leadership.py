"""Leadership: how a leader is chosen and replaced, and that its predecessor can commit nothing more."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiopg
import pytest

from storage.errors import DatabaseUnavailable, NodeEnded
from storage.postgres.leadership import Leadership, has_leader, lead
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from supervisors.clock import SystemClock

PATIENCE_SECONDS = 60  # for a loaded machine; every wait here takes well under two seconds

END_LEADER = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_locks
    WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

END_ALL = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

COUNT_BLOCKED = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""

COUNT_MEMBERS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"

COUNT_ORGANIZATIONS = "SELECT count(*) FROM organization"

INSERT_ORGANIZATION = (
    "INSERT INTO organization (id, name, created_at) VALUES (gen_random_uuid(), 'late', now())"
)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await SystemClock().sleep(0.01)


class Pace:
    """A sleep that is ten times as fast, counts its calls, and can be suspended."""

    def __init__(self) -> None:
        self.calls = 0
        self.running = asyncio.Event()
        self.running.set()

    async def sleep(self, seconds: float) -> None:
        self.calls += 1
        await SystemClock().sleep(seconds / 10)
        await self.running.wait()

    async def several_calls(self) -> None:
        target = self.calls + 5
        await until(lambda: self.calls >= target)


@asynccontextmanager
async def instance(database_url: str, pace: Pace) -> AsyncIterator[asyncio.Future[Leadership]]:
    """Run an instance that wants to lead; the future is done once it leads."""
    won: asyncio.Future[Leadership] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def live() -> None:
        async with lead(database_url, pace.sleep) as leadership:
            won.set_result(leadership)
            await leave.wait()

    life = asyncio.create_task(live())
    try:
        yield won
    finally:
        leave.set()
        if not won.done():
            life.cancel()
        await asyncio.wait({life})


async def soon(won: asyncio.Future[Leadership]) -> Leadership:
    return await asyncio.wait_for(won, PATIENCE_SECONDS)


async def ask(database_url: str, sql: str) -> int:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(sql)
        (answer,) = await cursor.fetchone()
        return int(answer)


async def test_each_lead_has_its_own_epoch(database_url: str) -> None:
    async with lead(database_url, Pace().sleep) as first:
        assert (first.epoch.number, first.is_held()) == (1, True)
    async with lead(database_url, Pace().sleep) as second:
        assert (second.epoch.number, second.is_held()) == (2, True)


async def test_is_led_tells_whether_an_instance_leads(database_url: str) -> None:
    assert not await has_leader(database_url)
    async with lead(database_url, Pace().sleep):
        assert await has_leader(database_url)


async def test_standby_leads_only_after_the_leader_leaves(database_url: str) -> None:
    pace = Pace()
    async with AsyncExitStack() as standby:
        async with lead(database_url, Pace().sleep) as leader:
            second = await standby.enter_async_context(instance(database_url, pace))
            await pace.several_calls()
            assert leader.is_held()
            assert not second.done(), "two instances lead at once"
        assert (await soon(second)).epoch.number == 2


async def test_waiting_standby_does_not_block_connections_of_the_leader(database_url: str) -> None:
    pace = Pace()
    async with lead(database_url, Pace().sleep) as leader, instance(database_url, pace):
        await pace.several_calls()
        settings = DatabaseSettings(url=database_url, pool_size=3)
        async with open_pool(settings, epoch=leader.epoch) as pool, pool.transaction(), pool.transaction():
            assert await pool.fetchval("SELECT 1") == 1
            assert await ask(database_url, COUNT_BLOCKED) == 0


async def test_standby_replaces_killed_process_and_terminates_its_backends(database_url: str) -> None:
    killed = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.storage.postgres.leading_process",
        database_url,
        stdout=asyncio.subprocess.PIPE,
    )
    assert killed.stdout is not None
    try:
        await killed.stdout.readuntil(b"writing\n")
    finally:
        killed.kill()
        await killed.wait()
    async with instance(database_url, Pace()) as standby:
        assert (await soon(standby)).epoch.number == 2
        assert await ask(database_url, COUNT_MEMBERS) == 0, "a backend of the killed process is still at work"
        assert await ask(database_url, COUNT_ORGANIZATIONS) == 0


async def test_open_transaction_of_the_previous_epoch_cannot_commit(database_url: str) -> None:
    async def write_across_the_change(pool: Pool) -> None:
        async with pool.transaction() as connection:
            await connection.execute(INSERT_ORGANIZATION)
            async with lead(database_url, Pace().sleep):
                await connection.execute(INSERT_ORGANIZATION)

    async with AsyncExitStack() as open_pools:
        async with lead(database_url, Pace().sleep) as former:
            settings = DatabaseSettings(url=database_url, pool_size=1)
            pool = await open_pools.enter_async_context(open_pool(settings, epoch=former.epoch))
        with pytest.raises(DatabaseUnavailable):
            await write_across_the_change(pool)
        with pytest.raises(NodeEnded):
            await pool.fetchval("SELECT 1")
    assert await ask(database_url, COUNT_ORGANIZATIONS) == 0


async def test_standby_leads_as_soon_as_previous_connections_close(
    database_url: str,
) -> None:
    pace = Pace()
    async with AsyncExitStack() as former_pool:
        async with lead(database_url, Pace().sleep) as former:
            settings = DatabaseSettings(url=database_url)
            await former_pool.enter_async_context(open_pool(settings, epoch=former.epoch))
        async with instance(database_url, pace) as successor:
            await pace.several_calls()
            assert not successor.done(), "it leads although connections of the previous epoch are alive"
            await former_pool.aclose()
            assert (await soon(successor)).epoch.number == 2


async def test_leader_with_broken_connection_resumes_its_epoch(database_url: str) -> None:
    pace = Pace()
    async with lead(database_url, pace.sleep) as leader:
        pace.running.clear()
        leader.changed.clear()
        await ask(database_url, END_LEADER)
        await asyncio.wait_for(leader.changed.wait(), PATIENCE_SECONDS)
        assert not leader.is_held()
        leader.changed.clear()
        pace.running.set()
        await asyncio.wait_for(leader.changed.wait(), PATIENCE_SECONDS)
        assert (leader.is_held(), leader.epoch.number) == (True, 1)


@pytest.mark.parametrize("successor_stays", [True, False], ids=["successor leads", "successor has left"])
async def test_leader_replaced_while_disconnected_has_lost(database_url: str, successor_stays: bool) -> None:
    pace = Pace()
    async with lead(database_url, pace.sleep) as former, AsyncExitStack() as successor:
        pace.running.clear()
        await ask(database_url, END_LEADER)
        await soon(await successor.enter_async_context(instance(database_url, Pace())))
        if not successor_stays:
            await successor.aclose()
        pace.running.set()
        await asyncio.wait_for(former.wait_until_lost(), PATIENCE_SECONDS)
        assert not former.is_held()


async def test_leader_ends_if_its_epoch_was_given_again(database_url: str) -> None:
    """A promoted standby may have missed an election, so that it counts the same number again."""
    pace = Pace()
    async with lead(database_url, pace.sleep) as former:
        pace.running.clear()
        await ask(database_url, END_LEADER)
        await until(lambda: not former.is_held())
        given = "UPDATE instance SET epoch = 1, leader_id = gen_random_uuid() RETURNING epoch"
        assert await ask(database_url, given) == former.epoch.number
        pace.running.set()
        await asyncio.wait_for(former.wait_until_lost(), PATIENCE_SECONDS)
        assert not former.is_held()


async def test_standby_survives_an_unavailable_database(database_url: str) -> None:
    pace = Pace()
    async with AsyncExitStack() as standby:
        async with lead(database_url, Pace().sleep):
            second = await standby.enter_async_context(instance(database_url, pace))
            await pace.several_calls()
            await ask(database_url, END_ALL)
            await pace.several_calls()
        await soon(second)
