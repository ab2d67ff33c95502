"""Attachments: the files that were uploaded with messages, stored in pieces."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from storage.postgres.pool import Connection, Pool
from storage.postgres.rows import from_row
from storage.postgres.shared_reads import SharedReads

INSERT = """
INSERT INTO attachment (id, organization_id, agent_id, message_id, name, content_type, size)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""

INSERT_CHUNK = "INSERT INTO attachment_chunk (attachment_id, position, content) VALUES ($1, $2, $3)"

GET = """
SELECT t.* FROM attachment t
WHERE t.id = ANY((SELECT $1::uuid[])::uuid[])
  AND (SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = t.agent_id) /* and */
"""

GET_CHUNK = "SELECT content FROM attachment_chunk WHERE attachment_id = $1 AND position = $2"

GET_START = """
SELECT substr(content, 1, $2) FROM attachment_chunk WHERE attachment_id = $1 AND position = 0
"""

CHUNK_BYTES = 262_144


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way into storage."""

    id: UUID
    name: str
    content_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoredAttachment:
    """A stored file without its content; it belongs to the agent of its message."""

    id: UUID
    organization_id: UUID
    agent_id: UUID
    message_id: UUID
    name: str
    content_type: str
    size: int


class Attachments:
    """The tables `attachment` and `attachment_chunk`. A deleted agent's attachments are not found."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads("attachments", pool, GET, partial(from_row, StoredAttachment))

    async def get_chunk(self, attachment_id: UUID, position: int) -> bytes | None:
        """Return a piece of the file, counted from 0; None after the last one."""
        chunk: bytes | None = await self._pool.fetchval(GET_CHUNK, attachment_id, position)
        return chunk

    async def get_start(self, attachment_id: UUID, max_bytes: int) -> bytes:
        """Return up to `max_bytes` from the beginning of the file, at most one piece."""
        start: bytes | None = await self._pool.fetchval(GET_START, attachment_id, max_bytes)
        return start or b""


async def insert_uploads(
    connection: Connection,
    organization_id: UUID,
    agent_id: UUID,
    message_id: UUID,
    uploads: Sequence[Upload],
) -> None:
    """Store the files of a message within its transaction."""
    for upload in uploads:
        size = len(upload.content)
        row = (upload.id, organization_id, agent_id, message_id, upload.name, upload.content_type, size)
        await connection.execute(INSERT, *row)
        for position, start in enumerate(range(0, size, CHUNK_BYTES)):
            chunk = upload.content[start : start + CHUNK_BYTES]
            await connection.execute(INSERT_CHUNK, upload.id, position, chunk)
