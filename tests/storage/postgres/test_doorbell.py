"""The doorbell: it hears rows of other programs at once, on connections that may die at any time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import aiopg
import pytest
import uvloop

from hostsvc.embedded_postgres import EmbeddedPostgres
from storage.errors import DatabaseRefused, DatabaseUnavailable
from storage.postgres.doorbell import Doorbell, parse_ring
from storage.postgres.membership import Sleep
from supervisors.clock import SystemClock
from supervisors.maintenance.loop import repeat
from tests.patience import PATIENCE_SECONDS
from tests.storage.postgres.proxies.relay import relay
from tests.storage.postgres.proxies.transaction_pooler import transaction_pooler

NAMELESS_RINGS = 3000
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


async def sleep_briefly(seconds: float) -> None:
    """Sleep a fiftieth of the time."""
    await SystemClock().sleep(seconds / 50)


async def sleep_never(_: float) -> None:
    await SystemClock().sleep(0)


class RingLog:
    """Records the rings and catch-ups of a doorbell."""

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
async def listening(url: str, sleep: Sleep = sleep_briefly) -> AsyncIterator[tuple[Doorbell, RingLog]]:
    log = RingLog()
    doorbell = Doorbell(log.on_ring, SystemClock().now, lambda _: None)
    async with doorbell.listening(url, sleep):
        catching_up = asyncio.create_task(
            repeat("catch-up", partial(doorbell.catch_up, log.catch_up), 0.02, SystemClock())
        )
        try:
            yield doorbell, log
        finally:
            catching_up.cancel()
            await asyncio.wait({catching_up})


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


def test_agents_named_reads_ids_or_nothing() -> None:
    one, other = uuid4(), uuid4()
    assert parse_ring(f"{one}") == [one]
    assert parse_ring(f"{one} {other}") == [one, other]
    for payload in ("", " ", "everything", f"{one},{other}", f"{one} "):
        assert parse_ring(payload) == []


async def test_row_of_another_program_rings_for_its_agent(database_url: str) -> None:
    async with listening(database_url) as (doorbell, log):
        assert doorbell.away_since is None
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
            "SELECT pg_notify('hostsvc_doorbell', 'nonsense ' || n) FROM generate_series(1, %s) AS n",
            NAMELESS_RINGS,
        )
        agent_id = uuid4()
        await run(database_url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))
        await until(lambda: log.agents == {agent_id}, "the ring after the nonsense")
        await until(lambda: log.catch_ups, "a catch-up")
        assert log.catch_ups < NAMELESS_RINGS / 20, "one catch-up must serve many rings"


async def test_lost_connection_is_replaced_and_caught_up(database_url: str) -> None:
    async with listening(database_url) as (doorbell, log):
        agent_id = uuid4()

        async def ring() -> None:
            await run(database_url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))

        log.during_catch_up = ring
        for attempt in range(1, 4):
            await run(database_url, END_LISTENER)
            await until(lambda: log.catch_ups == attempt, "a catch-up")  # noqa: B023
            await until(lambda: len(log.rings) == attempt, "a row written during the catch-up")  # noqa: B023
            assert doorbell.away_since is None
        assert "the server" in doorbell.reason


async def test_disconnected_listener_tells_since_when_and_why(own_server: EmbeddedPostgres) -> None:
    url = await asyncio.to_thread(own_server.start)
    async with listening(url) as (doorbell, log):
        before = SystemClock().now()
        await asyncio.to_thread(own_server.stop)
        await until(lambda: doorbell.away_since, "the loss of the connection")
        away_since = doorbell.away_since
        assert away_since is not None
        assert before <= away_since <= SystemClock().now()
        await until(lambda: "there is no server at /" in doorbell.reason, "a failed attempt to connect")
        assert doorbell.away_since == away_since
        assert log.catch_ups == 0

        await asyncio.to_thread(own_server.start)
        await until(lambda: log.catch_ups == 1, "a catch-up")
        assert doorbell.away_since is None
        agent_id = uuid4()
        await run(url, "SELECT pg_notify('hostsvc_doorbell', %s)", str(agent_id))
        await until(lambda: log.agents == {agent_id}, "a ring")


async def test_silent_connection_is_detected_and_replaced(database_url: str) -> None:
    async with relay(database_url) as (in_between, url), listening(url) as (doorbell, log):
        in_between.fall_silent()
        await until(lambda: log.catch_ups, "a catch-up")
        assert doorbell.reason == "it did not hear its own probe within 3 s"
        await until(lambda: doorbell.away_since is None, "the new connection")


async def test_failed_catch_up_is_retried(database_url: str) -> None:
    async with listening(database_url) as (_, log):
        log.failures_ahead = 3
        await run(database_url, "NOTIFY hostsvc_doorbell")
        await until(lambda: log.catch_ups, "a catch-up")
        assert log.failures_ahead == 0


async def test_doorbell_survives_statements_cancelled_by_the_server(database_url: str) -> None:
    async with listening(database_url, sleep_never) as (doorbell, log):
        async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not log.catch_ups:  # one statement follows another, so one of many cancels will hit
                    await cursor.execute(CANCEL_LISTENER_OFTEN)
        await until(lambda: doorbell.away_since is None, "the new connection")
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


async def test_connection_lost_before_it_listens_is_an_error_of_storage(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.postgres.doorbell.LISTEN", "SELECT pg_terminate_backend(pg_backend_pid())")
    doorbell = Doorbell(lambda _: None, SystemClock().now, lambda _: None)
    with pytest.raises(DatabaseUnavailable, match="shutting down, or an administrator"):
        async with doorbell.listening(database_url, sleep_briefly):
            pass


async def test_closing_at_any_moment_leaves_no_task(database_url: str) -> None:
    tasks = asyncio.all_tasks()
    for attempt in range(60):
        async with asyncio.timeout(PATIENCE_SECONDS), listening(database_url, sleep_never):
            await SystemClock().sleep(attempt / 15_000)  # in the middle of one of its probes
        assert asyncio.all_tasks() == tasks


@pytest.mark.parametrize("first_host", ["127.0.0.2:{port},", "127.0.0.2:{port},localhost:{port},"])
async def test_hosts_are_tried_in_turn(database_url: str, first_host: str) -> None:
    async with relay(database_url) as (in_between, url):
        hosts = first_host.format(port=in_between.port)
        async with listening(url.replace("@", f"@{hosts}")):
            assert in_between.connections == 2, "one that is accepted, and one through it"


async def test_hostaddr_is_used_without_lookup(database_url: str) -> None:
    async with relay(database_url) as (_, url):
        url = url.replace("127.0.0.1", "no-such-host.invalid")
        async with listening(f"{url}&hostaddr=127.0.0.1"):
            pass


async def test_unknown_url_parameter_is_refused(database_url: str) -> None:
    with pytest.raises(DatabaseRefused, match=r"the database URL cannot be used: .*no_such_thing"):
        async with listening(f"{database_url}&no_such_thing=1"):
            pass


@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run])
def test_doorbell_connects_after_refused_attempts(
    own_server: EmbeddedPostgres, loop: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """On both event loops: libpq closes the sockets of failed connections while the loop watches them."""
    own_server_url = own_server.start()

    async def outage() -> None:
        async with relay(own_server_url) as (in_between, url), listening(url) as (doorbell, log):
            for _ in range(3):
                await in_between.refuse()
                await until(lambda: doorbell.away_since, "the loss of the connection")
                await SystemClock().sleep(0.05)  # some attempts
                await in_between.accept()
                catch_ups = log.catch_ups
                await until(lambda: log.catch_ups > catch_ups, "a catch-up")  # noqa: B023

    loop(outage())
