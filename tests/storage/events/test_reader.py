"""The settled id: a reader sees every event, in order, whatever the order of the commits."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from storage.events.events import Events
from storage.events.model import Event, EventType
from storage.events.reader import EventReader, count_settled, unfinished
from storage.postgres.migrations import migrate
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from tests.crash.faults import OwnPostgres, killable_postgres
from tests.patience import PATIENCE_SECONDS
from tests.storage.events.log import OWNER, connected, write
from tests.storage.events.recorded import forget_events
from tests.storage.factories import NOW


@pytest.fixture
def killable_server() -> Iterator[OwnPostgres]:
    with killable_postgres() as server:
        yield server


@pytest.fixture
def events(pool: Pool) -> Events:
    return Events(pool)


@pytest.fixture
def reader(events: Events) -> EventReader:
    return EventReader(events)


async def read(reader: EventReader, times: int = 1) -> list[int]:
    """Return the ids of what is read by so many reads."""
    return [event.id for _ in range(times) for event in await reader.read()]


def event(event_id: int) -> Event:
    return Event(event_id, NOW, EventType.AGENT_ASLEEP, UUID(int=1), None, None, None, "", None, {})


@pytest.mark.parametrize(
    ("ids", "settled", "known_until", "count"),
    [
        ([], 7, 0, 0),
        ([8, 9, 10], 7, 0, 3),
        ([8, 10], 7, 0, 1),
        ([9], 7, 0, 0),
        ([9], 7, 8, 1),
        ([8, 10, 13], 7, 10, 2),
        ([10, 13, 14], 7, 12, 3),
    ],
)
def test_events_are_settled_up_to_a_gap(ids: list[int], settled: int, known_until: int, count: int) -> None:
    assert count_settled(map(event, ids), settled, known_until) == count


def test_prepared_transaction_counts_as_a_writer() -> None:
    writers = frozenset({"3/17", "4/2"})
    assert unfinished(writers, frozenset({"4/2", "5/9"})) == {"4/2"}
    assert unfinished(writers, frozenset({"-1/755"})) == {"-1/755"}


async def test_reverse_commits_are_read_in_order_of_ids(
    database_url: str, pool: Pool, reader: EventReader
) -> None:
    async with connected(database_url) as first, connected(database_url) as second:
        early, late = first.transaction(), second.transaction()
        await early.start()
        await late.start()
        ids = [await write(first), await write(second)]
        await late.commit()
        assert await pool.fetchval("SELECT array_agg(id) FROM event") == [ids[1]], "visible"

        assert await read(reader, times=5) == []
        assert (reader.settled, reader.is_blocked) == (0, True)

        await early.commit()
        assert await read(reader, times=2) == ids
        assert (reader.settled, reader.is_blocked) == (ids[1], False)


async def test_gap_of_a_rolled_back_transaction_is_passed(
    database_url: str, pool: Pool, reader: EventReader
) -> None:
    async with connected(database_url) as other:
        transaction = other.transaction()
        await transaction.start()
        await write(other)
        behind = await write(pool)
        assert await read(reader, times=3) == []
        await transaction.rollback()
        assert await read(reader, times=2) == [behind]


async def test_gap_of_a_killed_backend_is_passed(database_url: str, pool: Pool, reader: EventReader) -> None:
    async with connected(database_url) as other:
        await other.transaction().start()
        await write(other)
        behind = await write(pool)
        assert await read(reader, times=3) == []
        await pool.execute("SELECT pg_terminate_backend($1, 5000)", other.get_server_pid())
        assert await read(reader, times=2) == [behind]


async def test_long_transaction_without_events_holds_nothing_up(
    database_url: str, pool: Pool, reader: EventReader
) -> None:
    async with connected(database_url) as other:
        await other.transaction().start()
        await other.execute("INSERT INTO organization VALUES (gen_random_uuid(), 'Acme', false, now())")
        await pool.fetchval("SELECT nextval('event_id_seq')")  # a gap, as of a rolled-back transaction
        behind = await write(pool)
        assert await read(reader, times=2) == [behind]


async def test_later_writer_does_not_keep_an_earlier_gap(
    database_url: str, pool: Pool, reader: EventReader
) -> None:
    async with connected(database_url) as later:
        await pool.fetchval("SELECT nextval('event_id_seq')")
        behind = await write(pool)
        assert await read(reader) == []
        await later.transaction().start()
        await write(later)
        assert await read(reader) == [behind]


async def test_skip_waits_for_writers_in_flight(database_url: str, pool: Pool, reader: EventReader) -> None:
    async with connected(database_url) as other:
        transaction = other.transaction()
        await transaction.start()
        in_flight, visible = await write(other), await write(pool)
        waited = 0

        async def pause() -> None:
            nonlocal waited
            waited += 1
            if waited == 3:
                await transaction.commit()

        await reader.skip(pause)
        assert waited == 3
        assert (in_flight, reader.settled) == (visible - 1, visible)
        later = await write(pool)
        assert await read(reader) == [later]


async def test_skip_of_an_emptied_log_finds_its_end(pool: Pool, reader: EventReader) -> None:
    last = [await write(pool) for _ in range(3)][-1]
    await forget_events(pool)
    await reader.skip(lambda: asyncio.sleep(0))
    assert reader.settled == last


async def test_long_backlog_is_read_page_by_page(pool: Pool, reader: EventReader) -> None:
    ids = [await write(pool, data=f'{{"text": "{"x" * 100_000}"}}') for _ in range(5)]
    pages = []
    for _ in range(3):
        pages.append(await read(reader))
        assert reader.has_more is (pages[-1][-1] < ids[-1])
    assert pages == [ids[:2], ids[2:4], ids[4:]]


async def test_gap_after_a_crash_of_postgresql_is_passed(killable_server: OwnPostgres) -> None:
    await migrate(killable_server.url)
    settings = DatabaseSettings(url=killable_server.url)
    async with open_pool(settings, node=None) as pool:
        before = [await write(pool) for _ in range(3)]
        assert await read(EventReader(Events(pool))) == before
        await asyncio.to_thread(killable_server.kill_and_restart)
    async with open_pool(settings, node=None) as pool:
        after = await write(pool)
        assert after > before[-1] + 1, "PostgreSQL had logged the sequence ahead"
        assert await read(EventReader(Events(pool)), times=3) == [*before, after]


async def test_random_commit_orders_never_hide_an_event(
    database_url: str, pool: Pool, reader: EventReader
) -> None:
    """Many connections commit or roll back in random order; a reader passes no id that appears later."""
    committed: set[int] = set()
    seen: list[int] = []
    writers = 12
    running = writers

    async def keep_writing(random: Random) -> None:
        nonlocal running
        async with connected(database_url) as connection:
            for _ in range(25):
                committed.update(await _transaction(connection, random))
        running -= 1

    async def keep_reading() -> None:
        while running or not committed <= set(seen):
            seen.extend(await read(reader))

    async with asyncio.timeout(PATIENCE_SECONDS):
        randoms = [Random(seed) for seed in range(writers)]  # noqa: S311 -- protects no secret
        await asyncio.gather(keep_reading(), *map(keep_writing, randoms))

    assert seen == sorted(committed)
    assert len(seen) > 100
    assert seen[-1] - seen[0] >= len(seen), "some transactions were rolled back"


async def _transaction(connection: Any, random: Random) -> list[int]:
    """Write a few events with pauses of random length; return their ids if they are committed."""
    ids: list[int] = []
    transaction = connection.transaction()
    await transaction.start()
    for _ in range(random.randint(1, 3)):
        ids.append(await write(connection, organization_id=OWNER))
        await connection.execute("SELECT pg_sleep($1)", random.choice([0, 0, 0.002, 0.01]))
    if random.random() < 0.2:
        await transaction.rollback()
        return []
    await transaction.commit()
    return ids
