"""The table `audit_entry`: the audited events, each with the digest that chains it to the one before."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.events.audit_chain import NO_DIGEST, AuditEntry, digest_of, export_lines, head_line
from storage.events.events import Events
from storage.events.model import BY_OPERATOR, INSTANCE
from storage.events.reader import EventReader
from storage.ids import new_id
from storage.postgres.json_values import to_json
from storage.postgres.paging import Chunk, OrganizationsPage, OwnedTable, Page, fetch_page
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import Period
from storage.postgres.statement import fetch_all, fetch_one, insert_into

MAX_EVENTS = 50_000  # of the log that are looked through by one statement
MAX_ENTRIES = 200  # that are chained together, or exported at once

LOCK_POSITION = "SELECT chained_event_id FROM instance FOR NO KEY UPDATE"
SET_POSITION = "UPDATE instance SET chained_event_id = $1"

LIST_AUDITED = """
SELECT id AS event_id, at AS created_at, organization_id, agent_id, actor, address,
       coalesce(resource_id, agent_id,
                CASE WHEN type LIKE 'organization.%' THEN organization_id END) AS resource_id,
       coalesce(data ->> 'resource', split_part(type, '.', 1)) AS resource,
       coalesce(data ->> 'action', split_part(type, '.', 2)) AS action,
       (data::jsonb - 'resource' - 'action')::json AS data
FROM event WHERE id > $1 AND id <= $2 AND is_audited(type) ORDER BY id LIMIT $3
"""

GET_HEAD = "SELECT * FROM audit_entry WHERE organization_id = $1 ORDER BY number DESC LIMIT 1"

LIST_AFTER = """
SELECT * FROM audit_entry WHERE organization_id = $1 AND number > $2 AND number <= $3 ORDER BY number LIMIT $4
"""

RECORD = """
INSERT INTO event (at, type, organization_id, actor, address, data)
VALUES ($2, 'audit', $1, $3, $4, $5::text::json)
"""

TABLE = OwnedTable("audit_entry", "e", AuditEntry)


class AuditLog:
    """Chains audited events, and reads the entries."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, entry_id: UUID) -> AuditEntry | None:
        return await fetch_one(self._pool, AuditEntry, TABLE.get, [entry_id])

    async def chain_all(self, pause: Callable[[], Awaitable[None]]) -> None:
        """Chain what was written until now. Call `pause` while transactions may precede it."""
        reader = EventReader(Events(self._pool))
        await reader.skip(pause)
        while await self.chain(reader.settled):
            pass

    async def chain(self, settled: int) -> bool:
        """Chain the next events up to the settled id of the log; return whether there are more."""
        async with self._pool.transaction() as connection:
            position = await connection.fetchval(LOCK_POSITION)  # two nodes may believe that this is theirs
            until = min(settled, position + MAX_EVENTS)
            rows = await connection.fetch(LIST_AUDITED, position, until, MAX_ENTRIES)
            for row in rows:
                head = await fetch_one(connection, AuditEntry, GET_HEAD, row["organization_id"])
                number, previous = (head.number + 1, head.digest) if head else (1, NO_DIGEST)
                values = {"id": new_id(), **dict(row), "number": number, "previous": previous}
                del values["event_id"]
                values["digest"] = digest_of(values)
                await connection.execute(*insert_into("audit_entry", values))
            reached = rows[-1]["event_id"] if len(rows) == MAX_ENTRIES else max(position, until)
            await connection.execute(SET_POSITION, reached)
        return bool(reached < settled)

    async def list_page(
        self, organization_ids: Collection[UUID], only: Mapping[str, Any], created: Period, page: Page
    ) -> Chunk[AuditEntry]:
        """List one page of the entries, newest first; `only` those with these values (None: any)."""
        conditions = OrganizationsPage(organization_ids, page, TABLE.order)
        for column in ("resource", "resource_id", "action", "actor"):
            conditions.add_optional(f"e.{column} = $", only[column])
        conditions.add_period("e.created_at", created)
        return await fetch_page(self._pool, AuditEntry, TABLE.page, conditions)

    async def record_export(self, organization_id: UUID, now: datetime, actor: str, address: str) -> None:
        """Store an event that says who exports the log."""
        data = '{"resource": "audit_log", "action": "exported"}'
        await self._pool.execute(RECORD, organization_id, now, actor, address, data)

    async def get_head(self, organization_id: UUID) -> AuditEntry | None:
        """Return the newest entry of an organization."""
        return await fetch_one(self._pool, AuditEntry, GET_HEAD, organization_id)

    async def export(
        self, organization_id: UUID, reading: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    ) -> AsyncIterator[bytes]:
        """Yield the lines of the present log, oldest entries first, then its head. Read within `reading`."""
        head, number = await self.get_head(organization_id), 0
        until, digest = (head.number, head.digest) if head else (0, NO_DIGEST)
        while number < until:
            async with reading():
                entries = await fetch_all(
                    self._pool, AuditEntry, LIST_AFTER, organization_id, number, until, MAX_ENTRIES
                )
            yield export_lines(entries)
            number = entries[-1].number
        yield head_line(until, digest)


async def record_act(database: "Pool | Connection", action: str, now: datetime, **more: str) -> None:
    """Store an event that says what the operator did to the whole instance."""
    data = to_json({"resource": "instance", "action": action, **more}).decode()
    await database.execute(RECORD, INSTANCE, now, BY_OPERATOR, "", data)
