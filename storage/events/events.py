"""The table `event`: reading the log forward, inserting, and what a reader must know about its writers."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import LiteralString

from asyncpg import Record

from storage.events.model import PAUSES, Event, EventType, Interest, NewEvent
from storage.postgres.json_values import decoded
from storage.postgres.paging import CHUNK_BYTES, ROW_BYTES, Chunk
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import fill_in

MAX_ID = 2**63 - 1
MAX_EVENTS = 500  # that are read at once

OF_ALL = """
SELECT * FROM event WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3
"""

# Each organization along its index, then the first of all.
OF_ORGANIZATIONS = """
SELECT e.* FROM unnest($5::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT * FROM event WHERE organization_id = o.id AND id > $1 AND id <= $2 ORDER BY id LIMIT $3
) e
ORDER BY e.id LIMIT $3
"""

OF_AGENT = """
SELECT * FROM (
    (SELECT * FROM event WHERE agent_id = $5 AND id > $1 AND id <= $2 ORDER BY id LIMIT $3)
    UNION ALL
    (SELECT p.* FROM unnest($6::uuid[]) AS o (id)
     CROSS JOIN LATERAL (
         SELECT * FROM event
         WHERE organization_id = o.id AND agent_id IS NULL AND type = ANY($7::text[])
           AND id > $1 AND id <= $2
         ORDER BY id LIMIT $3
     ) p)
) e
ORDER BY e.id LIMIT $3
"""

OF_RUN = """
SELECT * FROM event WHERE run_id = $5 AND id > $1 AND id <= $2 ORDER BY id LIMIT $3
"""

# As many of the events as fit the bytes, and at least one.
FITTING = """
SELECT * FROM (
    SELECT e.*, row_number() OVER w AS place, count(*) OVER () AS found,
           sum(/* row_bytes */ + octet_length(data::text)) OVER w AS total_bytes
    FROM (/* events */) e
    WINDOW w AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
) e
WHERE place = 1 OR total_bytes <= $4
ORDER BY id
"""

# The last id that was ever given to a transaction, whether or not that has ended.
GET_LAST_ID = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_id_seq"

GET_FIRST_ID = "SELECT id FROM event ORDER BY id LIMIT 1"

# An insert takes this lock before its first id, and keeps it until its transaction is over.
LIST_WRITERS = """
SELECT DISTINCT virtualtransaction AS writer FROM pg_locks
WHERE locktype = 'relation' AND relation = 'event'::regclass AND mode = 'RowExclusiveLock' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Events:
    """The log. The event `written` is set when one may have been written."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.written = asyncio.Event()

    async def list_after(
        self,
        interest: Interest,
        after: int,
        until: int = MAX_ID,
        limit: int = MAX_EVENTS,
        max_bytes: int = CHUNK_BYTES,
    ) -> Chunk[Event]:
        """List the first events of the interest after one id and up to another, by id.

        Up to the settled id of the feed none can follow later. The list is cut at `max_bytes`.
        """
        statement, parameters = _select(interest)
        sql = fill_in(FITTING, "/* events */", statement)
        sql = fill_in(sql, "/* row_bytes */", str(ROW_BYTES))
        rows = await self._pool.fetch(sql, after, until, limit, max_bytes, *parameters)
        is_cut = bool(rows) and (len(rows) == limit or len(rows) < rows[0]["found"])
        return Chunk([to_event(row) for row in rows], is_cut=is_cut)

    async def get_first_id(self) -> int | None:
        """Return the id of the oldest event that is kept; None if there is none."""
        first_id: int | None = await self._pool.fetchval(GET_FIRST_ID)
        return first_id

    async def get_last_id(self) -> int:
        """Return the last id that a transaction was given, whether or not its event is visible."""
        last_id: int = await self._pool.fetchval(GET_LAST_ID)
        return last_id

    async def list_writers(self) -> frozenset[str]:
        """Return names of the transactions in progress that may have written events."""
        return frozenset(row["writer"] for row in await self._pool.fetch(LIST_WRITERS))


def _select(interest: Interest) -> tuple[LiteralString, tuple[object, ...]]:
    """Return the statement for the interest, and its parameters from $5 on."""
    if interest.run_id is not None:
        return OF_RUN, (interest.run_id,)
    organization_ids = list(interest.organization_ids or ())
    if interest.agent_id is not None:
        return OF_AGENT, (interest.agent_id, organization_ids, list(PAUSES))
    if interest.organization_ids is not None:
        return OF_ORGANIZATIONS, (organization_ids,)
    return OF_ALL, ()


def to_event(row: Record) -> Event:
    """Build an event without `from_row`, which would make each read of the feed half as expensive again."""
    return Event(
        id=row["id"],
        at=row["at"],
        type=EventType(row["type"]),
        organization_id=row["organization_id"],
        agent_id=row["agent_id"],
        run_id=row["run_id"],
        resource_id=row["resource_id"],
        actor=row["actor"],
        phase=row["phase"],
        data=decoded(row["data"]),
    )


# The organization of the event is that of its agent, which may have been deleted in this transaction.
INSERT = """
INSERT INTO event (at, type, organization_id, agent_id, run_id, resource_id, actor, data)
SELECT e.at, e.type, a.organization_id, a.id, event_run_id(e.actor), e.resource_id, e.actor,
       e.data::json
FROM unnest($1::timestamptz[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[])
    WITH ORDINALITY AS e (at, type, agent_id, resource_id, actor, data, ordinal)
JOIN agent a ON a.id = e.agent_id
ORDER BY e.ordinal
"""

MAX_TEXT = 200  # characters of a user's text, or of an error, that an event keeps


async def insert_events(connection: Connection, events: Sequence[NewEvent]) -> None:
    """Store events of agents within the transaction that makes the changes."""
    if not events:
        return
    rows = ((one.at, one.type, one.agent_id, one.resource_id, one.actor, one.data) for one in events)
    await connection.execute(INSERT, *zip(*rows, strict=True))


def format_moment(moment: datetime) -> str:
    """Format an aware datetime for the data of an event, such as 2026-11-21T09:00:00.000000Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
