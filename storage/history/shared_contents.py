"""System prompts and tool definitions: each text is stored once for an organization, by its digest."""

from datetime import date, datetime
from hashlib import sha256
from uuid import UUID

from storage.postgres.pool import Pool

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
