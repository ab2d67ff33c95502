"""MCP servers of adapters. Their tools are tools of the adapter, as far as an admin has accepted them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.ids import new_id
from storage.postgres.json_values import decoded
from storage.postgres.pool import Pool
from storage.postgres.statement import fetch_all, fetch_one
from storage.toolbox import ACCEPT, LIST_IMPORTED, MCP

# Tools of the adapter follow the address of their server, but not those that nobody has accepted.
PUT = """
WITH moved AS (
    UPDATE tool SET url = $2 WHERE adapter_id = $1 AND starts_with(handler, 'mcp:') AND url NOT IN ('', $2)
)
INSERT INTO mcp_server (adapter_id, url, headers, refresh_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (adapter_id) DO UPDATE SET url = $2, headers = $3, refresh_at = $4
"""

GET = """
SELECT s.*, a.organization_id FROM mcp_server s JOIN adapter a ON a.id = s.adapter_id WHERE s.adapter_id = $1
"""

# One of each organization, so that slow servers of one delay only its own.
LIST_DUE = """
SELECT * FROM (
    SELECT DISTINCT ON (a.organization_id) s.*, a.organization_id
    FROM mcp_server s JOIN adapter a ON a.id = s.adapter_id
    WHERE s.refresh_at <= $1 ORDER BY a.organization_id, s.refresh_at
) s ORDER BY refresh_at LIMIT $2
"""

POSTPONE = "UPDATE mcp_server SET refresh_at = $2, error = $3 WHERE adapter_id = $1"

# The address may have been changed while the list was read.
NOTE_LISTED = """
UPDATE mcp_server s SET refresh_at = $3, listed_at = $4, error = $5
FROM (SELECT adapter_id, listed_at FROM mcp_server WHERE adapter_id = $1 AND url = $2 FOR UPDATE) before
WHERE s.adapter_id = before.adapter_id RETURNING before.listed_at IS NULL
"""

# A tool that somebody has made under the same name keeps it.
INSERT_OFFERED = """
INSERT INTO tool (id, adapter_id, name, handler, is_enforced, created_at, offered)
VALUES ($1, $2, $3, 'mcp:' || $3::text, false, $4, $5) ON CONFLICT (adapter_id, name) DO NOTHING
"""

UPDATE_OFFERED = "UPDATE tool SET offered = $2 WHERE id = $1"


@dataclass(frozen=True, slots=True)
class Offer:
    """What models see of a tool at its server; `is_enforced` is that of `Tool`."""

    description: str
    parameters: Any
    is_enforced: bool


@dataclass(frozen=True, slots=True)
class McpServer:
    """The MCP server of an adapter. The values of `headers` are names of secrets."""

    adapter_id: UUID
    organization_id: UUID
    url: str
    headers: Mapping[str, str]
    refresh_at: datetime
    listed_at: datetime | None
    error: str


class McpServers:
    """The table `mcp_server`, and the tools that the servers offer."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(self, adapter_id: UUID, url: str, headers: Mapping[str, str], now: datetime) -> None:
        """Store the adapter's server, whose list is due. Raise ReferenceMissing if there is no adapter."""
        await self._pool.execute(PUT, adapter_id, url, headers, now)

    async def get(self, adapter_id: UUID) -> McpServer | None:
        """Return the adapter's server; None if it has none."""
        return await fetch_one(self._pool, McpServer, GET, adapter_id)

    async def list_due(self, now: datetime, limit: int) -> list[McpServer]:
        """List servers whose list of tools is to be read again, at most one of each organization."""
        return await fetch_all(self._pool, McpServer, LIST_DUE, now, limit)

    async def postpone(self, server: McpServer, refresh_at: datetime, error: str) -> None:
        """Note why the list of tools could not be read."""
        await self._pool.execute(POSTPONE, server.adapter_id, refresh_at, error)

    async def store(
        self, server: McpServer, offers: Mapping[str, Offer], now: datetime, refresh_at: datetime, error: str
    ) -> None:
        """Store what the server offers, by name. The first list is accepted: an admin has asked for it."""
        row = (server.adapter_id, server.url, refresh_at, now, error)
        async with self._pool.transaction() as connection:
            is_first = await connection.fetchval(NOTE_LISTED, *row)
            if is_first is None:
                return
            tools = await connection.fetch(LIST_IMPORTED, server.adapter_id)
            new = dict(offers)
            changes: list[tuple[UUID, Any]] = []
            for tool in tools:
                offer = new.pop(tool["handler"].removeprefix(MCP), None)
                offered = _difference(offer, tool)
                if offered != decoded(tool["offered"]):
                    changes.append((tool["id"], offered))
            added = [(new_id(), server.adapter_id, name, now, asdict(new[name])) for name in new]
            await connection.executemany(UPDATE_OFFERED, changes)
            await connection.executemany(INSERT_OFFERED, added)
            if is_first:
                await connection.execute(ACCEPT, server.adapter_id)


def _difference(offer: Offer | None, tool: Record) -> dict[str, Any] | None:
    """Return what an admin has to accept; None if the tool is as its server offers it."""
    if offer is None:
        return {}
    is_same = (tool["description"], decoded(tool["parameters"])) == (offer.description, offer.parameters)
    return None if is_same and tool["url"] else asdict(offer)
