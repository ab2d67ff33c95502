"""Shared reads: which reads go into one statement, what each caller gets, and which rows are read alone."""

import asyncio
from typing import Any
from uuid import UUID

import aiopg
import asyncpg
import pytest

from storage.errors import DatabaseUnavailable
from storage.ids import new_id
from storage.postgres.pool import DatabaseSettings, Pool, open_pool
from storage.postgres.shared_reads import MAX_ROWS, SHORT_BYTES, SharedReads
from tests.storage.postgres.test_pool import end_connections

CREATE = "CREATE TABLE thing (id uuid PRIMARY KEY, text text, document json, list text[])"
INSERT = "INSERT INTO thing VALUES ($1, $2, $3, $4)"
GET = "SELECT * FROM thing WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"
GET_SLOWLY = """
SELECT t.*, pg_sleep(60) FROM thing t WHERE id = ANY((SELECT $1::uuid[])::uuid[]) /* and */
"""
COUNT_SLEEPING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'
"""

LONG = "x" * SHORT_BYTES  # short on the disk

Thing = tuple[str | None, Any, list[str] | None]


class RecordingPool(Pool):
    """A copy of the given pool that keeps the ids of each statement, and can be held up by its gate."""

    def __init__(self, pool: Pool) -> None:
        vars(self).update(vars(pool))
        self.together: list[list[UUID]] = []
        self.alone: list[list[UUID]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        self.together.append(*args)
        await self.gate.wait()
        return await super().fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> asyncpg.Record | None:
        self.alone.append(*args)
        return await super().fetchrow(sql, *args)


@pytest.fixture
async def recording(pool: Pool) -> RecordingPool:
    await pool.execute(CREATE)
    return RecordingPool(pool)


def reads_of(pool: Pool) -> SharedReads[Thing]:
    return SharedReads("things", pool, GET, build, texts=("text",), documents=("document", "list"))


def build(row: asyncpg.Record) -> Thing:
    return row["text"], row["document"], row["list"]


async def stored(
    pool: Pool, text: str | None = None, document: Any = None, items: list[str] | None = None
) -> UUID:
    thing_id = new_id()
    await pool.execute(INSERT, thing_id, text, document, items)
    return thing_id


async def test_concurrent_reads_share_a_statement_and_get_their_rows(recording: RecordingPool) -> None:
    get = reads_of(recording)
    ids = [await stored(recording, str(number)) for number in range(20)]
    things = await asyncio.gather(*(get(thing_id) for thing_id in [*ids, ids[0]]))
    assert [text for text, _, _ in filter(None, things)] == [*map(str, range(20)), "0"]
    assert recording.together == [[*ids, ids[0]]]
    assert recording.alone == []


async def test_missing_row_is_none_beside_others(recording: RecordingPool) -> None:
    get, unknown = reads_of(recording), new_id()
    known = await stored(recording, "a")
    assert [*await asyncio.gather(get(unknown), get(known))] == [None, ("a", None, None)]


async def test_missing_row_of_short_columns_takes_one_statement(recording: RecordingPool) -> None:
    get, unknown = SharedReads("things", recording, GET, build), new_id()
    assert await get(unknown) is None
    assert (recording.together, recording.alone) == ([[unknown]], [])


async def test_statement_reads_limited_number_of_rows(recording: RecordingPool) -> None:
    get = reads_of(recording)
    thing_id = await stored(recording, "a")
    await asyncio.gather(*(get(thing_id) for _ in range(2 * MAX_ROWS + 1)))
    assert [len(ids) for ids in recording.together] == [MAX_ROWS, MAX_ROWS, 1]


@pytest.mark.parametrize(
    "value",
    [(f"{LONG}x", None, None), (None, {"title": LONG}, None), (None, None, [LONG])],
    ids=["text", "document", "list"],
)
async def test_long_row_is_read_alone(recording: RecordingPool, value: Thing) -> None:
    get = reads_of(recording)
    long, short = await stored(recording, *value), await stored(recording, LONG)
    assert [*await asyncio.gather(get(long), get(short))] == [value, (LONG, None, None)]
    assert recording.together == [[long, short]]
    assert recording.alone == [[long]]
    assert await get.get_short(long) is None


async def test_short_read_does_not_wait_for_long_one(recording: RecordingPool) -> None:
    get = reads_of(recording)
    long, short = await stored(recording, f"{LONG}x"), await stored(recording, "a")
    gate = asyncio.Event()

    async def read_alone_slowly(thing_id: UUID) -> Thing | None:
        assert await get.get_short(thing_id) is None
        await gate.wait()
        return await get.get_alone(thing_id)

    slow = asyncio.create_task(read_alone_slowly(long))
    assert await get(short) == ("a", None, None)
    assert not slow.done()
    gate.set()
    assert await slow == (f"{LONG}x", None, None)


async def test_cancelled_reader_leaves_answers_to_others(recording: RecordingPool) -> None:
    get = reads_of(recording)
    ids = [await stored(recording, name) for name in "ab"]
    recording.gate.clear()
    gone, stays = [asyncio.create_task(get(thing_id)) for thing_id in ids]
    while not recording.together:  # noqa: ASYNC110 -- until both are in the statement
        await asyncio.sleep(0)
    gone.cancel()
    recording.gate.set()
    assert await stays == ("b", None, None)
    assert gone.cancelled()


async def test_row_written_before_the_read_is_found(recording: RecordingPool) -> None:
    get = reads_of(recording)
    recording.gate.clear()
    early = asyncio.create_task(get(new_id()))
    while not recording.together:  # noqa: ASYNC110 -- until the first statement is in flight
        await asyncio.sleep(0)
    written = await stored(recording, "a")
    late = asyncio.create_task(get(written))
    recording.gate.set()
    assert [*await asyncio.gather(early, late)] == [None, ("a", None, None)]


async def is_sleeping(database_url: str) -> bool:
    """Ask another client's connection: one of the pool would end with the others, and be noticed later."""
    async with aiopg.connect(database_url) as connection, connection.cursor() as cursor:
        await cursor.execute(COUNT_SLEEPING)
        return bool(await cursor.fetchone() != (0,))


async def test_reads_fail_with_lost_connection_and_then_succeed(database_url: str) -> None:
    async with open_pool(DatabaseSettings(url=database_url, pool_size=1), node=None) as pool:
        await pool.execute(CREATE)
        get, thing_id = reads_of(pool), await stored(pool, "a")
        slow = SharedReads("slow things", pool, GET_SLOWLY, build)
        reading = asyncio.gather(*(slow(thing_id) for _ in range(3)), return_exceptions=True)
        while not await is_sleeping(database_url):
            pass
        await end_connections(database_url)
        errors = await reading
        assert [type(error) for error in errors] == [DatabaseUnavailable] * 3
        assert await get(thing_id) == ("a", None, None)
