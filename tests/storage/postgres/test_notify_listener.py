"""The doorbell: what other programs write is heard of at once, over connections that may die at any time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import aiopg
import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.errors import DatabaseRefused, DatabaseUnavailable
from storage.postgres.notify_listener import NotifyListener, agents_named, open_notify_listener
from supervisors.clock import SystemClock
from tests.storage.postgres.relay import relay
from tests.storage.postgres.transaction_pooler import transaction_pooler

PATIENCE_SECONDS = 20
AGENTS = """
    WITH organization AS (
        INSERT INTO organization (id, name, created_at) VALUES (gen_random_uuid(), 'Acme', now()) RETURNING id
    ), agent AS (
        INSERT INTO agent (id, organization_id, name, model, created_at)
        SELECT gen_random_uuid(), organization.id, 'Scout', 'builtin/inbox', now()
        FROM organization, generate_series(1, %s) RETURNING id
    )
    INSERT INTO agent_state (agent_id) SELECT id FROM agent
"""
ONE_FOR_EACH_AGENT = """
    INSERT INTO notification (agent_id, title, priority) SELECT agent_id, 'Hello', 'high' FROM agent_state
"""
END_LISTENER = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
CANCEL_LISTENER_OFTEN = """
    SELECT pg_cancel_backend(pid) FROM generate_series(1, 20000), pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class HastyClock(SystemClock):
    """Sleeps a fiftieth of what it is asked for."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 50)


class RestlessClock(SystemClock):
    """Never sleeps."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


class Ear:
    """What a doorbell was heard to say."""

    def __init__(self) -> None:
        self.rings: list[list[UUID]] = []
        self.catch_ups = 0
        self.failures_ahead = 0
        self.meanwhile: Callable[[], Any] | None = None

    @property
    def agents(self) -> set[UUID]:
        return {agent_id for ring in self.rings for agent_id in ring}

    def on_ring(self, agent_ids: Sequence[UUID]) -> None:
        self.rings.append(list(agent_ids))

    async def catch_up(self) -> None:
        if self.failures_ahead:
            self.failures_ahead -= 1
            raise DatabaseUnavailable("not yet")
        self.catch_ups += 1
        if self.meanwhile is not None:
            await self.meanwhile()


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[tuple[NotifyListener, Ear]]:
    ear = Ear()
    async with open_notify_listener(url, ear.on_ring, ear.catch_up, HastyClock()) as doorbell:
        yield doorbell, ear


async def run(url: str, sql: str, *args: Any) -> None:
    """As another program would."""
    async with aiopg.connect(url) as connection, connection.cursor() as cursor:
        await cursor.execute(sql, args)


async def ids(url: str) -> set[UUID]:
    async with aiopg.connect(url) as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT agent_id FROM agent_state")
        return {agent_id for (agent_id,) in await cursor.fetchall()}


async def until(true: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true():
                await SystemClock().sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE_SECONDS} s in vain for {what}") from None


async def back_after(doorbell: NotifyListener, heard_at: datetime | None) -> None:
    """Wait until it listens on a connection that was made since it was last heard at `heard_at`."""
    await until(
        lambda: doorbell.away_since is None and doorbell.last_heard_at != heard_at, "the doorbell to be back"
    )


def test_a_ring_names_agents_or_nobody() -> None:
    one, other = uuid4(), uuid4()
    assert agents_named(f"{one}") == [one]
    assert agents_named(f"{one} {other}") == [one, other]
    for payload in ("", " ", "everything", f"{one},{other}", f"{one} "):
        assert agents_named(payload) == []


async def test_a_row_of_another_program_rings_for_its_agent(database_url: str) -> None:
    async with listening(database_url) as (doorbell, ear):
        assert (doorbell.away_since, doorbell.last_heard_at is not None) == (None, True)
        await run(database_url, AGENTS, 1)
        await run(database_url, ONE_FOR_EACH_AGENT)
        await until(lambda: ear.rings, "a ring")
        assert ear.agents == await ids(database_url)
        assert ear.catch_ups == 0


async def test_a_bulk_load_rings_for_each_of_its_agents_in_a_few_rings(database_url: str) -> None:
    async with listening(database_url) as (_, ear):
        await run(database_url, AGENTS, 1000)
        await run(database_url, ONE_FOR_EACH_AGENT)
        everybody = await ids(database_url)
        await until(lambda: ear.agents == everybody, "everybody to be named")
        assert [len(ring) for ring in ear.rings] == [200] * 5
        assert ear.catch_ups == 0


async def test_a_load_for_very_many_agents_asks_to_look_at_everything(database_url: str) -> None:
    async with listening(database_url) as (_, ear):
        await run(database_url, AGENTS, 5001)
        await run(database_url, ONE_FOR_EACH_AGENT)
        await until(lambda: ear.catch_ups, "everything to be looked at")
        assert (ear.rings, ear.catch_ups) == ([], 1)


async def test_whoever_rings_without_a_name_gets_everything_looked_at_but_not_each_time(
    database_url: str,
) -> None:
    async with listening(database_url) as (_, ear):
        await run(
            database_url,
            "SELECT pg_notify('hostsvc_doorbell', 'nonsense ' || n) FROM generate_series(1, 3000) AS n",
        )
        agent_id = uuid4()
        await run(database_url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))
        await until(lambda: ear.agents == {agent_id}, "the ring behind the nonsense")
        await until(lambda: ear.catch_ups, "everything to be looked at")
        assert ear.catch_ups < 20, "once for all that rang meanwhile"


async def test_a_lost_connection_is_replaced_and_what_was_missed_is_looked_for(database_url: str) -> None:
    async with listening(database_url) as (doorbell, ear):
        agent_id = uuid4()

        async def ring() -> None:
            await run(database_url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))

        ear.meanwhile = ring
        for time in range(1, 4):
            await run(database_url, END_LISTENER)
            await until(lambda: ear.catch_ups == time, "everything to be looked at")  # noqa: B023
            await until(lambda: len(ear.rings) == time, "what is written during that look")  # noqa: B023
            assert doorbell.away_since is None
        assert "server closed the connection" in doorbell.reason or "terminating" in doorbell.reason


async def test_while_it_is_away_it_says_since_when_and_why(own_server: EmbeddedPostgres) -> None:
    url = await asyncio.to_thread(own_server.start)
    async with listening(url) as (doorbell, ear):
        before = SystemClock().now()
        await asyncio.to_thread(own_server.stop)
        await until(lambda: doorbell.away_since, "the doorbell to be missed")
        away_since = doorbell.away_since
        assert away_since is not None
        assert before <= away_since <= SystemClock().now()
        await until(lambda: "No such file or directory" in doorbell.reason, "an attempt in vain")
        assert doorbell.away_since == away_since
        assert ear.catch_ups == 0

        await asyncio.to_thread(own_server.start)
        await until(lambda: ear.catch_ups == 1, "everything to be looked at")
        assert doorbell.away_since is None
        agent_id = uuid4()
        await run(url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))
        await until(lambda: ear.agents == {agent_id}, "a ring")


async def test_a_connection_that_only_seems_to_live_is_found_out_and_replaced(database_url: str) -> None:
    async with relay(database_url) as (before, url), listening(url) as (doorbell, ear):
        before.fall_silent()
        await until(lambda: ear.catch_ups, "everything to be looked at")
        assert before.connections == 2
        assert doorbell.reason == "it did not hear itself within 3 s"
        await back_after(doorbell, None)


async def test_a_look_that_failed_is_tried_again(database_url: str) -> None:
    async with listening(database_url) as (_, ear):
        ear.failures_ahead = 3
        await run(database_url, "NOTIFY hostsvc_doorbell")
        await until(lambda: ear.catch_ups, "everything to be looked at")
        assert ear.failures_ahead == 0


async def test_statements_that_the_server_cancels_do_not_make_it_deaf(database_url: str) -> None:
    ear = Ear()
    async with open_notify_listener(database_url, ear.on_ring, ear.catch_up, RestlessClock()) as doorbell:
        async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not ear.catch_ups:  # it says one thing after the other, so of many cancels one will hit
                    await cursor.execute(CANCEL_LISTENER_OFTEN)
        await back_after(doorbell, doorbell.last_heard_at)
        agent_id = uuid4()
        await run(database_url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))
        await until(lambda: ear.agents == {agent_id}, "a ring")


async def test_the_addresses_of_a_host_are_tried_in_turn(database_url: str) -> None:
    async with relay(database_url) as (before, url):
        two_hosts = url.replace("@127.0.0.1", f"@127.0.0.2:{before.port},127.0.0.1")
        async with listening(two_hosts) as (doorbell, _):
            assert doorbell.away_since is None


async def test_one_that_cannot_be_put_up_at_all_is_an_error(database_url: str) -> None:
    async with transaction_pooler(database_url) as proxied_url:
        with pytest.raises(DatabaseUnavailable, match="did not hear itself within 3 s"):
            async with listening(proxied_url):
                pass
    with pytest.raises(DatabaseUnavailable, match="nobody-is-here"):
        async with listening("postgresql://postgres@/postgres?host=/nobody-is-here"):
            pass
    with pytest.raises(DatabaseRefused, match=r"the database URL cannot be used: .*no_such_thing"):
        async with listening(f"{database_url}&no_such_thing=1"):
            pass


async def test_it_can_be_taken_down_at_any_moment_and_nothing_of_it_stays(database_url: str) -> None:
    tasks, ear = asyncio.all_tasks(), Ear()
    for time in range(60):
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            open_notify_listener(database_url, ear.on_ring, ear.catch_up, RestlessClock()),
        ):
            await SystemClock().sleep(time / 15_000)  # in the middle of one of its many probes
        assert asyncio.all_tasks() == tasks
