"""The doorbell: it hears rows of other programs at once, on connections that may die at any time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import aiopg
import pytest

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.errors import DatabaseUnavailable
from storage.postgres.notify_listener import NotifyListener, open_notify_listener, parse_ring
from supervisors.clock import SystemClock
from tests.storage.postgres.proxies.relay import relay
from tests.storage.postgres.proxies.transaction_pooler import transaction_pooler

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
    """Sleeps a fiftieth of the requested time."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 50)


class RestlessClock(SystemClock):
    """Never sleeps."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


class RingLog:
    """Records the rings and catch-ups of a listener."""

    def __init__(self) -> None:
        self.rings: list[list[UUID]] = []
        self.event_rings = 0
        self.catch_ups = 0
        self.failures_ahead = 0
        self.during_catch_up: Callable[[], Any] | None = None

    @property
    def agents(self) -> set[UUID]:
        return {agent_id for ring in self.rings for agent_id in ring}

    def on_ring(self, agent_ids: Sequence[UUID]) -> None:
        if agent_ids:
            self.rings.append(list(agent_ids))
        else:
            self.event_rings += 1

    async def catch_up(self) -> None:
        if self.failures_ahead:
            self.failures_ahead -= 1
            raise DatabaseUnavailable("not yet")
        self.catch_ups += 1
        if self.during_catch_up is not None:
            await self.during_catch_up()


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[tuple[NotifyListener, RingLog]]:
    log = RingLog()
    async with open_notify_listener(url, log.on_ring, log.catch_up, HastyClock()) as listener:
        yield listener, log


async def run(url: str, sql: str, *args: Any) -> None:
    """Execute a statement like another program."""
    async with aiopg.connect(url) as connection, connection.cursor() as cursor:
        await cursor.execute(sql, args)


async def ids(url: str) -> set[UUID]:
    async with aiopg.connect(url) as connection, connection.cursor() as cursor:
        await cursor.execute("SELECT agent_id FROM agent_state")
        return {agent_id for (agent_id,) in await cursor.fetchall()}


async def until(condition: Callable[[], object], description: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await SystemClock().sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE_SECONDS} s in vain for {description}") from None


async def back_after(listener: NotifyListener, heard_at: datetime | None) -> None:
    """Wait until it listens on a connection made after it last heard something, at `heard_at`."""
    await until(
        lambda: listener.away_since is None and listener.last_heard_at != heard_at,
        "the listener to be connected again",
    )


def test_agents_named_reads_ids_or_nothing() -> None:
    one, other = uuid4(), uuid4()
    assert parse_ring(f"{one}") == [one]
    assert parse_ring(f"{one} {other}") == [one, other]
    for payload in ("", " ", "everything", f"{one},{other}", f"{one} "):
        assert parse_ring(payload) == []


async def test_row_of_another_program_rings_for_its_agent(database_url: str) -> None:
    async with listening(database_url) as (listener, log):
        assert (listener.away_since, listener.last_heard_at is not None) == (None, True)
        await run(database_url, AGENTS, 1)
        await run(database_url, ONE_FOR_EACH_AGENT)
        await until(lambda: log.rings, "a ring")
        assert log.agents == await ids(database_url)
        assert log.catch_ups == 0


async def test_ring_about_events_causes_no_catch_up(database_url: str) -> None:
    async with listening(database_url) as (_, log):
        await run(database_url, "NOTIFY hostsvc_doorbell, 'events'")
        await until(lambda: log.event_rings, "a ring about events")
    assert (log.rings, log.catch_ups) == ([], 0)


async def test_bulk_load_names_all_agents_in_a_few_rings(database_url: str) -> None:
    async with listening(database_url) as (_, log):
        await run(database_url, AGENTS, 1000)
        await run(database_url, ONE_FOR_EACH_AGENT)
        all_agents = await ids(database_url)
        await until(lambda: log.agents == all_agents, "a ring for every agent")
        assert [len(ring) for ring in log.rings] == [200] * 5
        assert log.catch_ups == 0


async def test_load_for_very_many_agents_causes_a_catch_up(database_url: str) -> None:
    async with listening(database_url) as (_, log):
        await run(database_url, AGENTS, 5001)
        await run(database_url, ONE_FOR_EACH_AGENT)
        await until(lambda: log.catch_ups, "a catch-up")
        assert (log.rings, log.catch_ups) == ([], 1)


async def test_many_nameless_rings_cause_few_catch_ups(
    database_url: str,
) -> None:
    async with listening(database_url) as (_, log):
        await run(
            database_url,
            "SELECT pg_notify('hostsvc_doorbell', 'nonsense ' || n) FROM generate_series(1, 3000) AS n",
        )
        agent_id = uuid4()
        await run(database_url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))
        await until(lambda: log.agents == {agent_id}, "the ring after the nonsense")
        await until(lambda: log.catch_ups, "a catch-up")
        assert log.catch_ups < 20, "one catch-up must serve many rings"


async def test_lost_connection_is_replaced_and_caught_up(database_url: str) -> None:
    async with listening(database_url) as (listener, log):
        agent_id = uuid4()

        async def ring() -> None:
            await run(database_url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))

        log.during_catch_up = ring
        for attempt in range(1, 4):
            await run(database_url, END_LISTENER)
            await until(lambda: log.catch_ups == attempt, "a catch-up")  # noqa: B023
            await until(lambda: len(log.rings) == attempt, "a row written during the catch-up")  # noqa: B023
            assert listener.away_since is None
        assert "the server" in listener.reason


async def test_disconnected_listener_tells_since_when_and_why(own_server: EmbeddedPostgres) -> None:
    url = await asyncio.to_thread(own_server.start)
    async with listening(url) as (listener, log):
        before = SystemClock().now()
        await asyncio.to_thread(own_server.stop)
        await until(lambda: listener.away_since, "the loss of the connection")
        away_since = listener.away_since
        assert away_since is not None
        assert before <= away_since <= SystemClock().now()
        await until(lambda: "there is no server at /" in listener.reason, "a failed attempt to connect")
        assert listener.away_since == away_since
        assert log.catch_ups == 0

        await asyncio.to_thread(own_server.start)
        await until(lambda: log.catch_ups == 1, "a catch-up")
        assert listener.away_since is None
        agent_id = uuid4()
        await run(url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))
        await until(lambda: log.agents == {agent_id}, "a ring")


async def test_silent_connection_is_detected_and_replaced(database_url: str) -> None:
    async with relay(database_url) as (in_between, url), listening(url) as (listener, log):
        in_between.fall_silent()
        await until(lambda: log.catch_ups, "a catch-up")
        assert in_between.connections == 2
        assert listener.reason == "it did not hear its own probe within 3 s"
        await back_after(listener, None)


async def test_failed_catch_up_is_retried(database_url: str) -> None:
    async with listening(database_url) as (_, log):
        log.failures_ahead = 3
        await run(database_url, "NOTIFY hostsvc_doorbell")
        await until(lambda: log.catch_ups, "a catch-up")
        assert log.failures_ahead == 0


async def test_listener_survives_statements_cancelled_by_the_server(database_url: str) -> None:
    log = RingLog()
    async with open_notify_listener(database_url, log.on_ring, log.catch_up, RestlessClock()) as listener:
        async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (
                    not log.catch_ups
                ):  # it runs one statement after another, so one of many cancels will hit
                    await cursor.execute(CANCEL_LISTENER_OFTEN)
        await back_after(listener, listener.last_heard_at)
        agent_id = uuid4()
        await run(database_url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))
        await until(lambda: log.agents == {agent_id}, "a ring")


async def test_failed_first_connection_is_an_error(database_url: str) -> None:
    async with transaction_pooler(database_url) as proxied_url:
        with pytest.raises(DatabaseUnavailable, match="did not hear its own probe within 3 s"):
            async with listening(proxied_url):
                pass
    with pytest.raises(DatabaseUnavailable, match="nobody-is-here"):
        async with listening("postgresql://postgres@/postgres?host=/nobody-is-here"):
            pass


async def test_closing_at_any_moment_leaves_no_task(database_url: str) -> None:
    tasks, log = asyncio.all_tasks(), RingLog()
    for attempt in range(60):
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            open_notify_listener(database_url, log.on_ring, log.catch_up, RestlessClock()),
        ):
            await SystemClock().sleep(attempt / 15_000)  # in the middle of one of its probes
        assert asyncio.all_tasks() == tasks
