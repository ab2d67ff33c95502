"""Helpers that write events in transactions of their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg

from storage.events.model import EventType
from tests.storage.factories import NOW

INSERT = """
INSERT INTO event (at, type, organization_id, agent_id, run_id, phase, data)
VALUES ($1, $2, $3, $4, $5, $6, $7::text::json) RETURNING id
"""
OWNER = UUID(int=1)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """Yield a connection of another program."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def write(
    database: Any,
    type_: str = EventType.AGENT_ASLEEP,
    *,
    organization_id: UUID = OWNER,
    agent_id: UUID | None = None,
    run_id: UUID | None = None,
    at: Any = NOW,
    data: str = "{}",
) -> int:
    """Insert an event, within the transaction of the connection if there is one, and return its id."""
    event_id: int = await database.fetchval(INSERT, at, type_, organization_id, agent_id, run_id, None, data)
    return event_id
