"""Membership: nodes find that another one is dead, and after that it can commit nothing more."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import aiopg
import pytest
from structlog.testing import capture_logs

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.errors import DatabaseRefused, DatabaseUnavailable, NodeEnded, NodesRemain, SchemaMismatch
from storage.ids import new_id
from storage.postgres import migrations
from storage.postgres.connections import LEADER, MEMBER, NODE, OLD_MEMBER, connect
from storage.postgres.membership import (
    BEAT,
    CONFIRMED_SECONDS,
    FOUND_DEAD,
    Membership,
    has_nodes,
    join,
    wait_until_one_left,
)
from storage.postgres.migrations import ROLLING, VERSION, Migration, migrate, read_migrations
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from supervisors.clock import SystemClock
from tests.patience import PATIENCE_SECONDS

SPEED = 10

END_BEATS = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_locks
    WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
END_ALL = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
COUNT_MEMBERS = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND classid = {member} AND objid = {node} AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
COUNT_DEAD = "SELECT count(*) FROM node WHERE state = 'dead' AND ended_at IS NOT NULL"
COUNT_ORGANIZATIONS = "SELECT count(*) FROM organization"
INSERT_ORGANIZATION = (
    "INSERT INTO organization (id, name, created_at) VALUES (gen_random_uuid(), 'late', now())"
)
COUNT_SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)'"
END_MIGRATION = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)'
"""
CONDEMN = "UPDATE node SET state = 'condemned' WHERE id = {node} RETURNING id"


class Pace:
    """Time that is ten times as fast, and can stand still for one node."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.running.set()

    async def sleep(self, seconds: float) -> None:
        await SystemClock().sleep(seconds / SPEED)
        await self.running.wait()

    def monotonic(self) -> float:
        return time.monotonic() * SPEED


def node(url: str, pace: Pace | None = None, **options: Any) -> AbstractAsyncContextManager[Membership]:
    """Join as a node that lives ten times as fast."""
    pace = pace or Pace()
    description: dict[str, Any] = {"name": "one", "version": "1", "roles": ["http", "runs"]}
    return join(url, pace.sleep, **description | {"monotonic": pace.monotonic} | options)


@asynccontextmanager
async def node_process(url: str) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """Run a node in a process of its own, which is in the middle of a write; yield its number."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.storage.postgres.node_process", url, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        await process.stdout.readuntil(b"number ")  # after lines of the log
        number = int(await process.stdout.readline())
        while not await ask(url, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%'"):
            await SystemClock().sleep(0.01)
        yield number, process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def enter(joining: AbstractAsyncContextManager[Membership]) -> None:
    async with joining:
        pass


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await SystemClock().sleep(0.005)


async def ask(database_url: str, sql: str) -> int:
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(sql)
        (answer,) = await cursor.fetchone()
        return int(answer)


async def test_nodes_see_each_other_come_and_go(database_url: str) -> None:
    async with node(database_url, name="first", version="2", roles=["runs"]) as first:
        assert (len(first.nodes), first.is_confirmed) == (1, True)
        own = first.nodes[first.node_id]
        assert (own.name, own.version, own.roles, own.state) == ("first", "2", ("runs",), "alive")
        first.changed.clear()
        async with node(database_url) as second:
            assert set(second.nodes) == {first.node_id, second.node_id}
            assert first.is_living(second.node_id), "one that joined after the last beat lives"
            await asyncio.wait_for(first.changed.wait(), PATIENCE_SECONDS)
            assert set(first.nodes) == {first.node_id, second.node_id}
            first.changed.clear()
        await asyncio.wait_for(first.changed.wait(), PATIENCE_SECONDS)
        await until(lambda: set(first.nodes) == {first.node_id})
        assert not first.is_living(second.node_id)
        assert await ask(database_url, COUNT_DEAD) == 1
    assert await ask(database_url, COUNT_DEAD) == 2
    assert not first.is_confirmed


async def test_node_that_joined_and_left_between_two_beats_is_not_living(database_url: str) -> None:
    pace = Pace()
    async with node(database_url, pace) as first:
        pace.running.clear()
        async with node(database_url) as second:
            pass
        pace.running.set()
        await until(lambda: not first.is_living(second.node_id))


async def test_facts_of_each_beat_reach_the_others(database_url: str) -> None:
    async with node(database_url) as first, node(database_url) as second:
        first.facts = lambda: {"free_slots": 3}
        await until(lambda: first.node_id in second.nodes)
        await until(lambda: second.nodes[first.node_id].facts == {"free_slots": 3})


async def test_silence_of_a_node_is_measured_and_its_name_known(database_url: str) -> None:
    pace = Pace()
    async with node(database_url) as first, node(database_url, pace, name="two") as second:
        await until(lambda: len(first.nodes) == 2)
        assert (first.name_of(second.node_id), first.name_of(99)) == ("two", "")
        await until(lambda: first.seconds_since_beat(second.node_id) < 1)
        pace.running.clear()
        await until(lambda: first.seconds_since_beat(second.node_id) > 2)
        assert first.seconds_since_beat(first.node_id) < first.seconds_since_beat(second.node_id)
        pace.running.set()


async def test_one_node_is_responsible_for_each_agent(database_url: str) -> None:
    agents = [uuid4() for _ in range(200)]
    async with node(database_url) as first:
        assert {first.responsible_for(agent) for agent in agents} == {first.node_id}
        async with node(database_url) as second, node(database_url, roles=["http"]) as third:
            await until(lambda: len(first.nodes) == len(second.nodes) == len(third.nodes) == 3)
            owners = [[each.responsible_for(agent) for agent in agents] for each in (first, second, third)]
            assert owners[0] == owners[1] == owners[2]
            assert set(owners[0]) == {first.node_id, second.node_id}
            await second.leave()
            assert second.nodes[second.node_id].state == "leaving"
            await until(lambda: {first.responsible_for(agent) for agent in agents} == {first.node_id})
            assert second.is_confirmed
            assert first.is_living(second.node_id)


async def test_killed_process_on_this_machine_is_replaced_at_once(database_url: str) -> None:
    """Even by one that only now joins, and though its backend is still at work."""
    async with node_process(database_url) as (killed, process):
        process.kill()
        await process.wait()
        assert await ask(database_url, COUNT_MEMBERS.format(member=MEMBER, node=killed)) > 0
        async with node(database_url) as successor:
            assert killed in successor.nodes
            await until(lambda: killed not in successor.nodes)
            assert not successor.is_living(killed)
            assert await ask(database_url, COUNT_MEMBERS.format(member=MEMBER, node=killed)) == 0
    assert await ask(database_url, COUNT_ORGANIZATIONS) == 0


async def test_frozen_process_is_buried_and_ends_when_it_wakes(database_url: str) -> None:
    async with node(database_url) as witness, node_process(database_url) as (frozen, process):
        os.kill(process.pid, signal.SIGSTOP)
        await until(lambda: frozen in witness.nodes)
        await until(lambda: frozen not in witness.nodes)
        assert await ask(database_url, COUNT_MEMBERS.format(member=MEMBER, node=frozen)) == 0
        os.kill(process.pid, signal.SIGCONT)
        await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)
    assert await ask(database_url, COUNT_ORGANIZATIONS) == 0


async def test_node_without_connections_is_condemned(database_url: str) -> None:
    pace = Pace()
    async with node(database_url) as witness, node(database_url, pace) as lost:
        pace.running.clear()
        await until(lambda: len(witness.nodes) == 2)
        await ask(database_url, END_BEATS)
        await until(lambda: lost.node_id not in witness.nodes)
        assert witness.is_confirmed, "it has connected again"
        pace.running.set()
        await asyncio.wait_for(lost.wait_until_ended(), PATIENCE_SECONDS)
        with pytest.raises(NodeEnded):
            await lost.wait_until_confirmed()
        assert lost.end_reason == f"{FOUND_DEAD} while it had no connection"
        await lost.leave()


async def test_unexpected_error_ends_the_node_and_is_its_reason(database_url: str) -> None:
    def fail(_: str) -> None:
        raise LookupError("a bug")

    async with node(database_url) as broken:
        broken.report = fail
        await ask(database_url, END_BEATS)
        await asyncio.wait_for(broken.wait_until_ended(), PATIENCE_SECONDS)
        assert broken.end_reason == "its beat has failed: LookupError('a bug')"


async def test_open_transaction_of_a_dead_node_cannot_commit(database_url: str) -> None:
    async def write_until_dead(pool: Pool, witness: Membership, dead: Membership) -> None:
        async with pool.transaction() as connection:
            await connection.execute(INSERT_ORGANIZATION)
            await ask(database_url, CONDEMN.format(node=dead.node_id))
            await until(lambda: dead.node_id not in witness.nodes)
            await connection.execute(INSERT_ORGANIZATION)

    async with node(database_url) as witness, node(database_url) as dead:
        await until(lambda: len(witness.nodes) == 2)
        async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=dead) as pool:
            with pytest.raises(DatabaseUnavailable):
                await write_until_dead(pool, witness, dead)
            with pytest.raises(NodeEnded):
                await pool.fetchval("SELECT 1")
        await asyncio.wait_for(dead.wait_until_ended(), PATIENCE_SECONDS)
    assert await ask(database_url, COUNT_ORGANIZATIONS) == 0


async def test_lost_connection_is_replaced_and_confirmation_regained(database_url: str) -> None:
    pace, reports = Pace(), list[str]()
    async with node(database_url, pace, report=reports.append) as one:
        pace.running.clear()
        one.changed.clear()
        await ask(database_url, END_BEATS)
        await until(lambda: not one.is_confirmed)
        assert one.backend is None
        waiting = asyncio.create_task(one.wait_until_confirmed())
        one.changed.clear()
        pace.running.set()
        await asyncio.wait_for(one.changed.wait(), PATIENCE_SECONDS)
        await waiting
        assert (one.is_confirmed, len(one.nodes)) == (True, 1)
    assert (reports[0], reports[-1]) == ("", "")
    assert any(reports)


async def test_node_that_is_alone_is_trusted_for_longer(database_url: str) -> None:
    pace = Pace()
    async with join(database_url, pace.sleep, name="", version="", roles=[]) as one:
        alone = one.trusted_until()
        async with node(database_url):
            await until(lambda: len(one.nodes) == 2)
            assert one.trusted_until() < alone
        await until(lambda: len(one.nodes) == 1)
        assert one.trusted_until() > alone


@pytest.mark.real_time
async def test_lost_confirmation_is_announced(database_url: str) -> None:
    pace = Pace()
    async with join(database_url, pace.sleep, name="", version="", roles=[]) as one:
        pace.running.clear()
        one.changed.clear()
        await asyncio.wait_for(one.changed.wait(), CONFIRMED_SECONDS + PATIENCE_SECONDS)
        assert not one.is_confirmed
        pace.running.set()


async def test_nobody_is_condemned_after_all_connections_were_lost(database_url: str) -> None:
    async with node(database_url) as first, node(database_url) as second:
        await until(lambda: len(first.nodes) == 2)
        for _ in range(3):
            await ask(database_url, END_ALL)
            await until(lambda: not (first.backend and second.backend))
            await until(lambda: first.is_confirmed and second.is_confirmed)
        assert (len(first.nodes), len(second.nodes)) == (2, 2)
        assert await ask(database_url, "SELECT count(*) FROM node WHERE state <> 'alive'") == 0


@pytest.mark.parametrize(
    "change", ["DELETE FROM node RETURNING id", "UPDATE node SET life = gen_random_uuid() RETURNING id"]
)
async def test_node_ends_if_the_promoted_server_does_not_know_it(database_url: str, change: str) -> None:
    """A standby that is promoted may have missed the join, or have given the number again."""
    pace = Pace()
    async with node(database_url, pace) as one:
        pace.running.clear()
        await ask(database_url, END_BEATS)
        assert await ask(database_url, change) == one.node_id
        pace.running.set()
        await asyncio.wait_for(one.wait_until_ended(), PATIENCE_SECONDS)


async def test_node_waits_while_an_older_release_leads_and_fences_it(database_url: str) -> None:
    async with AsyncExitStack() as old, AsyncExitStack() as new:
        leader = await old.enter_async_context(connect(database_url))
        await leader.execute("UPDATE instance SET epoch = 3, leader_id = $1", new_id())
        await leader.execute("SELECT pg_advisory_lock($1, $2)", *LEADER)
        member = await new.enter_async_context(connect(database_url))
        await member.execute("SELECT pg_advisory_lock_shared($1, $2)", OLD_MEMBER, 3)
        joining = asyncio.create_task(new.enter_async_context(node(database_url)))
        await SystemClock().sleep(0.2)
        assert not joining.done()
        await old.aclose()
        one = await asyncio.wait_for(joining, PATIENCE_SECONDS)
        await until(member.is_closed)
        assert await ask(database_url, "SELECT epoch FROM instance WHERE leader_id IS NULL") == 4
        async with connect(database_url) as standby:
            assert not await standby.fetchval("SELECT pg_try_advisory_lock($1, $2)", *LEADER)
        assert one.is_confirmed


async def test_node_ends_if_an_older_release_has_led(database_url: str) -> None:
    pace = Pace()
    async with node(database_url, pace) as one:
        pace.running.clear()
        await ask(database_url, END_BEATS)
        await ask(database_url, "UPDATE instance SET leader_id = gen_random_uuid() RETURNING epoch")
        pace.running.set()
        await asyncio.wait_for(one.wait_until_ended(), PATIENCE_SECONDS)


async def test_former_connection_that_the_server_keeps_does_not_stop_a_node(database_url: str) -> None:
    pace = Pace()
    async with node(database_url, pace) as one, connect(database_url) as former:
        pace.running.clear()
        await ask(database_url, END_BEATS)
        await former.execute("SELECT pg_advisory_lock($1, $2)", NODE, one.node_id)
        await until(lambda: not one.is_confirmed)
        pace.running.set()
        await asyncio.wait_for(one.wait_until_confirmed(), PATIENCE_SECONDS)
        await until(former.is_closed)


async def test_join_that_cannot_succeed_is_an_error() -> None:
    with pytest.raises(DatabaseRefused, match="cannot be used"):
        async with node("http://localhost/x"):
            pass


async def test_has_nodes_tells_whether_a_node_is_connected(database_url: str) -> None:
    assert not await has_nodes(database_url)
    async with node(database_url):
        assert await has_nodes(database_url)


async def corrections_of(one: Membership) -> list[float]:
    """Return by how many seconds the next beats correct the clock."""
    corrections: list[float] = []
    one.correct = corrections.append
    beat = one.nodes[one.node_id].beat
    await until(lambda: one.nodes[one.node_id].beat > beat + 1)
    return corrections


async def test_clock_is_compared_only_with_that_of_another_machine(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now() -> datetime:
        return SystemClock().now() + timedelta(seconds=100)

    async with node(database_url, now=now) as one:  # over a Unix socket
        assert await corrections_of(one) == []
    monkeypatch.setattr("storage.postgres.membership.BEAT", BEAT.replace("inet_server_addr()", "1"))
    async with node(database_url, now=now) as one:
        assert -101 < (await corrections_of(one))[-1] < -99
    async with node(database_url, now=SystemClock().now) as one:
        assert (await corrections_of(one))[-1] == 0


async def test_node_joins_once_the_server_is_back(own_server: EmbeddedPostgres) -> None:
    url = await asyncio.to_thread(own_server.start)
    await migrate(url)
    async with node(url) as one:
        await asyncio.to_thread(own_server.stop)
        await until(lambda: not one.is_confirmed)
        await asyncio.to_thread(own_server.start)
        await asyncio.wait_for(one.wait_until_confirmed(), PATIENCE_SECONDS)


async def test_facts_that_cannot_be_read_do_not_end_the_node(database_url: str) -> None:
    def crash() -> dict[str, Any]:
        raise RuntimeError("dictionary changed size during iteration")

    async with node(database_url) as one:
        one.facts = crash
        beat = one.nodes[one.node_id].beat
        await until(lambda: one.nodes[one.node_id].beat > beat + 3)
        assert one.is_confirmed


@pytest.mark.parametrize("protocol", [3, 5])
async def test_node_does_not_join_beside_a_distant_protocol(
    database_url: str, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    monkeypatch.setattr("storage.postgres.membership.PROTOCOL", 4)
    async with node(database_url, name="older", version="0.3.0") as older:
        monkeypatch.setattr("storage.postgres.membership.PROTOCOL", protocol)
        async with node(database_url) as near:
            await until(lambda: len(near.nodes) == 2)
        monkeypatch.setattr("storage.postgres.membership.PROTOCOL", 6 if protocol > 4 else 2)
        with pytest.raises(NodesRemain, match=r"left: older \(hostsvc 0.3.0, protocol 4\)$") as refusal:
            async with node(database_url):
                pass
        assert refusal.value.node_ids == {older.node_id}
    async with node(database_url) as newer:
        assert newer.is_confirmed


def plant(monkeypatch: pytest.MonkeyPatch, mark: str, sql: str = "CREATE TABLE planted ()") -> str:
    """Ship one migration more, and return its name."""
    shipped = read_migrations()
    planted = Migration(len(shipped) + 1, "9999_planted.sql", f"{mark}{sql}")
    monkeypatch.setattr(migrations, "read_migrations", lambda: [*shipped, planted])
    return planted.name


async def test_rolling_migration_is_applied_beside_nodes_that_do_not_know_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(database_url) as older:
        name = plant(monkeypatch, ROLLING)
        assert await migrate(database_url) == [name]
        async with node(database_url) as newer:
            await until(lambda: len(newer.nodes) == len(older.nodes) == 2)


async def test_other_migration_waits_until_the_last_older_node_is_dead(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node_process(database_url) as (killed, process), node(database_url, name="two") as living:
        name = plant(monkeypatch, "")
        with pytest.raises(
            NodesRemain, match=rf"^{name} cannot be applied until .*: other .*, two "
        ) as refusal:
            await migrate(database_url)
        assert refusal.value.node_ids == {killed, living.node_id}
        process.kill()
        await wait_until_one_left(database_url, refusal.value.node_ids, Pace().sleep)
        with pytest.raises(NodesRemain, match="left: two "):
            await migrate(database_url)
    assert await migrate(database_url) == [name]


async def test_killed_last_node_is_found_dead_by_a_process_that_waits(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node_process(database_url) as (number, process):
        process.kill()
        await asyncio.wait_for(
            wait_until_one_left(database_url, [number], Pace().sleep, monotonic=Pace().monotonic),
            PATIENCE_SECONDS,
        )
    plant(monkeypatch, "")
    assert await migrate(database_url)


async def test_process_that_waits_for_nodes_goes_on_after_a_lost_connection(database_url: str) -> None:
    reports: list[str] = []
    async with node(database_url) as living:
        leaving = wait_until_one_left(database_url, [living.node_id], Pace().sleep, reports.append)
        waiting = asyncio.create_task(leaving)
        await until(lambda: reports == [""])
        await ask(database_url, END_ALL)
        await until(lambda: waiting.done() or (reports[-1:] == [""] and len(reports) > 2))
        assert not waiting.done()
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert reports[1], "nobody was told why"


async def test_join_behind_a_migration_says_who_migrates_to_what(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[str] = []
    with monkeypatch.context() as newer:
        name = plant(newer, ROLLING, "SELECT pg_sleep(600)")
        migrating = asyncio.create_task(migrate(database_url))
        while not await ask(database_url, COUNT_SLEEPING):
            await SystemClock().sleep(0.01)
    with capture_logs() as lines:
        joining = asyncio.create_task(enter(node(database_url, report=reports.append)))
        await until(lambda: bool(lines))
    assert lines[0]["event"] == "waiting until a migration of the database has ended"
    assert lines[0]["by"].startswith(f"hostsvc {VERSION}: {name}")
    assert set(reports) <= {""}
    await ask(database_url, END_MIGRATION)
    await asyncio.wait_for(joining, PATIENCE_SECONDS)
    with pytest.raises(DatabaseUnavailable):
        await migrating


async def test_node_that_started_before_a_migration_does_not_join_after_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        plant(newer, "")
        await migrate(database_url)
    with pytest.raises(SchemaMismatch, match="9999_planted"):
        async with node(database_url):
            pass
