"""Reads the event log as tests compare it."""

from typing import Any

from asyncpg import Record

from storage.events.events import MAX_ID
from storage.postgres.pool import Pool

LIST = "SELECT * FROM event WHERE type LIKE $1 || '.%' ORDER BY id"

Logged = tuple[str, str, dict[str, Any]]
"""The type, the actor and the data of an event."""


async def list_events(pool: Pool, kind: str) -> list[Record]:
    """Return the events about this kind of thing, such as `notification`, in their order."""
    return await pool.fetch(LIST, kind)


async def logged(pool: Pool, kind: str) -> list[Logged]:
    """Return the type, the actor and the data of these events."""
    return [(row["type"], row["actor"], row["data"]) for row in await list_events(pool, kind)]


async def forget_events(pool: Pool, after: int = 0, until: int = MAX_ID) -> None:
    """Delete events between these ids, also those that the audit log has not copied yet."""
    async with pool.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")  # without triggers
        await connection.execute("DELETE FROM event WHERE id > $1 AND id <= $2", after, until)
