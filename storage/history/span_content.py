"""The content of spans: what a model or a tool was told and answered, apart from the other metadata.

System prompts and tool definitions are stored once for an organization, by the digest of each text.
"""

from datetime import date, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.postgres.json_values import EncodedJson, to_json
from storage.postgres.pool import Pool

INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"


def full_metadata(row: Record) -> Any:
    """Return the metadata of a span with its content, from the columns of both.

    Metadata that a client replaced by something other than an object is returned alone.
    """
    metadata, content = row["metadata"], row["content"]
    if content is None or not _is_object(metadata):
        return metadata
    found = {INSTRUCTIONS: row["instructions"], TOOL_DEFINITIONS: row["tools"]}
    shared = {key: value for key, value in found.items() if value is not None}
    if any(isinstance(part, EncodedJson) for part in (metadata, content, *shared.values())):
        return EncodedJson(_joined([to_json(part) for part in (metadata, shared, content)]))
    return {**metadata, **shared, **content}


def _is_object(value: Any) -> bool:
    return value.text.startswith(b"{") if isinstance(value, EncodedJson) else isinstance(value, dict)


def _joined(objects: list[bytes]) -> bytes:
    """Return one object with the members of all, without parsing them: they may be long."""
    members = (text.strip()[1:-1].strip() for text in objects)
    return b"{" + b",".join(filter(None, members)) + b"}"


MAX_KNOWN = 10_000  # of texts that were stored lately

INSERT = """
INSERT INTO shared_content AS known (organization_id, digest, content, used_at)
VALUES ($1, $2, $3::text::json, $4)
ON CONFLICT (organization_id, digest) DO UPDATE SET used_at = greatest(known.used_at, excluded.used_at)
"""


class SharedContents:
    """The table `shared_content`. A text that this process has stored today costs no statement."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[tuple[UUID, bytes], date] = {}

    async def store(self, organization_id: UUID, text: bytes, now: datetime) -> bytes:
        """Store a JSON text unless it is stored already, note its use, and return its digest."""
        digest = sha256(text).digest()
        key, today = (organization_id, digest), now.date()
        if self._known.get(key) != today:
            await self._pool.execute(INSERT, organization_id, digest, text.decode(), now)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[key] = today
        return digest
