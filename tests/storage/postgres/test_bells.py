"""Bells: nodes ring each other through PostgreSQL, those of a moment together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import aiopg
import pytest
from structlog.testing import capture_logs

from storage.errors import DatabaseUnavailable
from storage.postgres.bells import Bells, parse_bell
from storage.postgres.doorbell import Doorbell
from storage.postgres.pool import Pool
from supervisors.clock import SystemClock
from tests.patience import PATIENCE_SECONDS

Heard = list[tuple[str, list[UUID]]]


@asynccontextmanager
async def listener(url: str, node_id: int) -> AsyncIterator[Heard]:
    heard: Heard = []

    def on_bell(kind: str, ids: Sequence[UUID]) -> None:
        heard.append((kind, list(ids)))

    def on_ring(_: Sequence[UUID]) -> None:
        raise AssertionError("a bell is no ring of another program")

    clock = SystemClock()
    doorbell = Doorbell(on_ring, clock.now, lambda _: None, node_id=node_id, on_bell=on_bell)
    async with doorbell.listening(url, clock.sleep):
        yield heard


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await SystemClock().sleep(0.005)


def bells_of(pool: Pool, count: int = 2) -> Bells:
    return Bells(pool, lambda: count, SystemClock().sleep)


async def test_bell_reaches_the_node_that_it_is_for(pool: Pool, database_url: str) -> None:
    bells, agents = bells_of(pool), [uuid4(), uuid4()]
    async with listener(database_url, 1) as first, listener(database_url, 2) as second:
        bells.ring(2, "notified", agents)
        bells.ring(2, "events", ())
        bells.ring(1, "events", ())
        await bells.run_once()
        await until(lambda: first and len(second) == 2)
    assert first == [("events", [])]
    assert second == [("notified", agents), ("events", [])]


async def test_bells_of_one_moment_go_together(pool: Pool, database_url: str) -> None:
    bells, agents = bells_of(pool), [uuid4() for _ in range(401)]
    async with listener(database_url, 2) as heard:
        for agent in agents:
            bells.ring(2, "notified", [agent])
            bells.ring(2, "notified", [agent])
        bells.ring(2, "cleared", agents[:1])
        bells.ring(2, "events", ())
        await bells.run_once()
        await until(lambda: len(heard) == 5)
    assert [(kind, len(ids)) for kind, ids in heard] == [
        ("notified", 200),
        ("notified", 200),
        ("notified", 1),
        ("cleared", 1),
        ("events", 0),
    ]
    assert [agent for kind, ids in heard if kind == "notified" for agent in ids] == agents


async def test_lone_node_rings_nobody(pool: Pool, database_url: str) -> None:
    alone, bells = bells_of(pool, 1), bells_of(pool)
    async with listener(database_url, 2) as heard:
        alone.ring(2, "notified", [uuid4()])
        sending = asyncio.create_task(alone.run_once())
        bells.ring(2, "events", ())
        await bells.run_once()
        await until(lambda: heard)
        assert not sending.done()
        sending.cancel()
    assert heard == [("events", [])]


async def test_bells_are_dropped_if_the_database_fails(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> str:
        raise DatabaseUnavailable("away")

    bells = bells_of(pool)
    monkeypatch.setattr(pool, "execute", fail)
    bells.ring(2, "events", ())
    with capture_logs() as logged:
        await bells.run_once()
    assert [(line["event"], line["log_level"]) for line in logged] == [("bells were lost", "debug")]


async def test_payload_of_another_program_is_ignored(database_url: str) -> None:
    async with listener(database_url, 2) as heard, aiopg.connect(database_url) as connection:
        async with connection.cursor() as cursor:
            for payload in ("", "reload nonsense", "events"):
                await cursor.execute("SELECT pg_notify('hostsvc_node_2', %s)", (payload,))
        await until(lambda: heard)
    assert heard == [("events", [])]


def test_bell_is_parsed_into_kind_and_ids() -> None:
    one = uuid4()
    assert parse_bell(f"cleared {one}") == ("cleared", [one])
    assert parse_bell("events") == ("events", [])
    assert parse_bell("events ") == parse_bell("") == ("", [])
