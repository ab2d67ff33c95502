"""Attachments: files of messages in pieces, and their deletion with agents and messages."""

import os

import pytest

from storage.agents.agents import Agents
from storage.channels.contacts import Contacts
from storage.channels.messages import (
    CHUNK_BYTES,
    Attachments,
    Direction,
    Messages,
    StoredAttachment,
    Upload,
)
from storage.errors import AddressTaken, Forbidden
from storage.ids import new_id
from storage.model import Agent
from storage.organization_limits import OrganizationLimits
from storage.postgres.pool import Pool
from storage.retention import ROWS_PER_CHUNK, Retention
from tests.storage.channels.resources import contact, message
from tests.storage.factories import NOW, new_notification

COUNT_CHUNKS = "SELECT count(*) FROM attachment_chunk"


def upload(size: int) -> Upload:
    return Upload(new_id(), "a.bin", "application/zip", os.urandom(size))


async def test_file_is_read_in_pieces(messages: Messages, pool: Pool, scout: Agent) -> None:
    attachments, file, empty = Attachments(pool), upload(2 * CHUNK_BYTES + 1), upload(0)
    new = message(scout, direction=Direction.OUTBOUND)
    await messages.insert(new, uploads=[file, empty])

    assert await attachments.get(file.id) == StoredAttachment(
        file.id, scout.organization_id, scout.id, new.id, file.name, file.content_type, len(file.content)
    )
    pieces = [await attachments.get_chunk(file.id, position) for position in range(4)]
    assert pieces[3] is None
    assert b"".join(filter(None, pieces)) == file.content
    for start in (0, 10, CHUNK_BYTES - 5, CHUNK_BYTES + 1):
        part = await attachments.get_part(file.id, start, 10)
        assert part == file.content[start : start + 10][: CHUNK_BYTES - start % CHUNK_BYTES]
    assert await attachments.get_part(file.id, len(file.content), 10) == b""
    assert await attachments.get_part(empty.id, 0, 10) == b""
    assert await OrganizationLimits(pool).document_bytes.in_use(scout.organization_id) == (
        len(file.content) + 2 * 1024
    )


async def test_sender_files_and_notification_are_stored_together(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    ada = contact(scout, agent_id=None, phone="+43123456")
    new = message(scout, contact_id=ada.id)
    with pytest.raises(Forbidden):
        await messages.receive(new, new_notification(scout.id), set(), sender=ada, uploads=[upload(5)])
    assert await Contacts(pool).get(ada.id) is None
    assert await pool.fetchval(COUNT_CHUNKS) == 0

    own = {scout.organization_id}
    await messages.receive(new, new_notification(scout.id), own, sender=ada, uploads=[upload(5)])
    assert await Contacts(pool).find(scout.organization_id, "+43123456") == ada

    eve = contact(scout, agent_id=None, phone="+43123456")
    second = message(scout, contact_id=eve.id)
    with pytest.raises(AddressTaken):
        await messages.receive(second, new_notification(scout.id), own, sender=eve)
    assert await messages.get(second.id) is None


async def test_files_of_deleted_agent_go_in_small_batches(
    messages: Messages, pool: Pool, scout: Agent
) -> None:
    files = [upload(2 * CHUNK_BYTES) for _ in range(2)]
    await messages.insert(message(scout), uploads=files)
    await Agents(pool).delete(scout.id, NOW)
    assert await Attachments(pool).get(files[0].id) is None

    retention = Retention(pool)
    deleted: list[int] = []
    while not deleted or deleted[-1]:
        deleted.append(await retention.delete_leftovers(NOW, 3 * ROWS_PER_CHUNK))

    assert deleted == [3, 1, 3, 0]  # pieces, then two files and their message
    assert await pool.fetchval("SELECT count(*) FROM attachment") == 0
