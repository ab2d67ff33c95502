"""Reads by id as JSON: which rows are written in the shared statement, and which are only found there."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

import pytest

from storage.ids import new_id
from storage.postgres.json_pages import JsonItem
from storage.postgres.json_reads import JsonReads, JsonRow
from storage.postgres.pool import Pool
from storage.postgres.rows import to_row
from storage.postgres.shared_reads import SHORT_BYTES, SharedReads
from tests.storage.postgres.test_shared_reads import RecordingPool

CREATE = "CREATE TABLE note (id uuid PRIMARY KEY, organization_id uuid, agent_id uuid, text text)"
INSERT = "INSERT INTO note (id, organization_id, agent_id, text) VALUES ($1, $2, $3, $4)"
GET = "SELECT n.* FROM note n WHERE n.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"

LONG = "x" * (SHORT_BYTES + 1)


@dataclass(frozen=True)
class Note:
    id: UUID
    organization_id: UUID
    agent_id: UUID | None
    text: str


@pytest.fixture
async def recording(pool: Pool) -> RecordingPool:
    await pool.execute(CREATE)
    return RecordingPool(pool)


def reads_of(pool: Pool) -> JsonReads:
    get = SharedReads("notes", pool, GET, lambda row: row, texts=("n.text",))
    return get.as_json(JsonItem(Note, {"text": "text"}))


async def stored(pool: Pool, text: str, agent_id: UUID | None = None) -> Note:
    note = Note(new_id(), new_id(), agent_id, text)
    await pool.execute(INSERT, *to_row(INSERT, note))
    return note


async def test_concurrent_reads_share_statement_and_get_their_json(recording: RecordingPool) -> None:
    reads = reads_of(recording)
    notes = [await stored(recording, "a", new_id()), await stored(recording, "b")]
    found = await asyncio.gather(*(reads.get_short(note.id) for note in notes))
    assert found == [
        JsonRow(note.organization_id, note.agent_id, b'{"text":"%b"}' % note.text.encode()) for note in notes
    ]
    assert (len(recording.together), recording.alone) == (1, [])


async def test_long_row_is_found_together_and_written_alone(recording: RecordingPool) -> None:
    reads, note = reads_of(recording), await stored(recording, LONG)
    assert await reads.get_short(note.id) == JsonRow(note.organization_id, None, b"")
    whole = JsonRow(note.organization_id, None, b'{"text":"%b"}' % LONG.encode())
    assert await reads.get_alone(note.id) == whole


async def test_missing_row_is_none(recording: RecordingPool) -> None:
    reads = reads_of(recording)
    assert await reads.get_short(new_id()) is None
    assert await reads.get_alone(new_id()) is None


def test_reads_of_one_item_are_the_same(pool: Pool) -> None:
    get, item = SharedReads("notes", pool, GET, lambda row: row), JsonItem(Note, {"text": "text"})
    assert get.as_json(item) is get.as_json(item)
