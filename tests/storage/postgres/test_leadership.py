"""One leader: how it is chosen, how it is replaced, and what of the one before still counts."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiopg
import pytest

from storage.errors import DatabaseUnavailable, LeadershipLost
from storage.postgres.leadership import Leadership, is_led, lead
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from supervisors.clock import SystemClock

PATIENCE_SECONDS = 20  # for a loaded machine; what is waited for takes well under two seconds

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


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not true():
            await SystemClock().sleep(0.01)


class Pace:
    """A sleep ten times as fast, which counts its calls and can be stopped."""

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
    """One that wants to lead; the future is done when it does."""
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


async def test_each_lead_has_an_epoch_of_its_own(database_url: str) -> None:
    async with lead(database_url, Pace().sleep) as first:
        assert (first.epoch, first.held()) == (1, True)
    async with lead(database_url, Pace().sleep) as second:
        assert (second.epoch, second.held()) == (2, True)


async def test_it_can_be_seen_whether_somebody_leads(database_url: str) -> None:
    assert not await is_led(database_url)
    async with lead(database_url, Pace().sleep):
        assert await is_led(database_url)


async def test_a_standby_leads_when_the_leader_leaves_and_not_before(database_url: str) -> None:
    pace = Pace()
    async with AsyncExitStack() as standby:
        async with lead(database_url, Pace().sleep) as leader:
            second = await standby.enter_async_context(instance(database_url, pace))
            await pace.several_calls()
            assert leader.held()
            assert not second.done(), "two lead at once"
        assert (await soon(second)).epoch == 2


async def test_a_waiting_standby_blocks_no_connection_of_the_leader(database_url: str) -> None:
    pace = Pace()
    async with lead(database_url, Pace().sleep) as leader, instance(database_url, pace):
        await pace.several_calls()
        settings = DatabaseSettings(url=database_url, pool_size=3)
        async with open_pool(settings, epoch=leader.epoch) as pool, pool.transaction(), pool.transaction():
            assert await pool.fetchval("SELECT 1") == 1
            assert await ask(database_url, COUNT_BLOCKED) == 0


async def test_a_standby_takes_over_from_a_killed_process_and_ends_what_it_left(database_url: str) -> None:
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
        assert (await soon(standby)).epoch == 2
        assert await ask(database_url, COUNT_MEMBERS) == 0, "a backend of the killed process is at work"
        assert await ask(database_url, COUNT_ORGANIZATIONS) == 0


async def test_an_open_transaction_of_the_epoch_before_cannot_commit(database_url: str) -> None:
    async def write_across_the_change(pool: Pool) -> None:
        async with pool.transaction() as connection:
            await connection.execute(INSERT_ORGANIZATION)
            async with lead(database_url, Pace().sleep):
                await connection.execute(INSERT_ORGANIZATION)

    async with AsyncExitStack() as left_open:
        async with lead(database_url, Pace().sleep) as former:
            settings = DatabaseSettings(url=database_url, pool_size=1)
            pool = await left_open.enter_async_context(open_pool(settings, epoch=former.epoch))
        with pytest.raises(DatabaseUnavailable):
            await write_across_the_change(pool)
        with pytest.raises(LeadershipLost):
            await pool.fetchval("SELECT 1")
    assert await ask(database_url, COUNT_ORGANIZATIONS) == 0


async def test_connections_of_the_epoch_before_that_close_in_time_are_not_waited_out(
    database_url: str,
) -> None:
    pace = Pace()
    async with AsyncExitStack() as former_pool:
        async with lead(database_url, Pace().sleep) as former:
            settings = DatabaseSettings(url=database_url)
            await former_pool.enter_async_context(open_pool(settings, epoch=former.epoch))
        async with instance(database_url, pace) as next_one:
            await pace.several_calls()
            assert not next_one.done(), "it leads while connections of the epoch before live"
            await former_pool.aclose()
            assert (await soon(next_one)).epoch == 2


async def test_a_leader_whose_connection_breaks_goes_on_in_its_epoch(database_url: str) -> None:
    pace = Pace()
    async with lead(database_url, pace.sleep) as leader:
        pace.running.clear()
        await ask(database_url, END_LEADER)
        await until(lambda: not leader.held())
        pace.running.set()
        await until(leader.held)
        assert leader.epoch == 1


@pytest.mark.parametrize("successor_stays", [True, False], ids=["still leads", "has gone again"])
async def test_a_leader_that_another_has_replaced_meanwhile_has_lost(
    database_url: str, successor_stays: bool
) -> None:
    pace = Pace()
    async with lead(database_url, pace.sleep) as former, AsyncExitStack() as successor:
        pace.running.clear()
        await ask(database_url, END_LEADER)
        await soon(await successor.enter_async_context(instance(database_url, Pace())))
        if not successor_stays:
            await successor.aclose()
        pace.running.set()
        await asyncio.wait_for(former.lost(), PATIENCE_SECONDS)
        assert not former.held()


async def test_a_standby_outlives_a_database_that_is_away(database_url: str) -> None:
    pace = Pace()
    async with AsyncExitStack() as standby:
        async with lead(database_url, Pace().sleep):
            second = await standby.enter_async_context(instance(database_url, pace))
            await pace.several_calls()
            await ask(database_url, END_ALL)
            await pace.several_calls()
        await soon(second)
