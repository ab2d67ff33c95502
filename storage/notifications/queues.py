"""The queues of agents, as their tools read them: whole, or since a given time; several in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import LiteralString
from uuid import UUID

from storage.model import Notification, Priority, Source
from storage.postgres.paging import ROW_BYTES, Chunk
from storage.postgres.pool import Pool
from storage.postgres.query import fill_in
from storage.postgres.statement import from_row

SHARED_BYTES = 65_536  # of one queue that is read together with others
MAX_BYTES = 1_048_576  # of one queue; a single notification may be longer

# The array is the result of a subquery, which hides its length from the planner: with a visible length
# PostgreSQL would plan the statement again at each execution.
# A notification that does not fit comes without its texts, so that it is known to be there.
LIST_OF_AGENTS = """
SELECT item.ordinal, n.fits, n.id, n.organization_id, n.agent_id, n.source, n.priority, n.created_at,
       n.scheduled_for, n.cleared, n.cleared_at, n.activated_at, n.urgent,
       CASE WHEN n.fits THEN n.source_id END AS source_id,
       CASE WHEN n.fits THEN n.title END AS title,
       CASE WHEN n.fits THEN n.body END AS body
FROM unnest((SELECT $1::uuid[]), $2::integer[], $3::timestamptz[], $4::integer[], $5::integer[])
     WITH ORDINALITY AS item (agent_id, max_count, now, min_fitting, max_bytes, ordinal)
CROSS JOIN LATERAL (SELECT FROM agent WHERE id = item.agent_id AND deleted_at IS NULL OFFSET 0) a
CROSS JOIN LATERAL (
    SELECT n.*, row_number() OVER w <= item.min_fitting OR sum(n.bytes) OVER w <= item.max_bytes AS fits
    FROM (
        SELECT n.*, $6 + octet_length(n.source_id) + octet_length(n.title) + octet_length(n.body) AS bytes
        FROM notification n
        WHERE n.agent_id = item.agent_id AND (n.scheduled_for IS NULL OR n.scheduled_for <= item.now)
          /* and */
        ORDER BY n.priority = 'high' DESC, n.created_at, n.id LIMIT item.max_count
    ) n
    WINDOW w AS (ORDER BY n.priority = 'high' DESC, n.created_at, n.id ROWS UNBOUNDED PRECEDING)
) n
ORDER BY item.ordinal, n.priority = 'high' DESC, n.created_at, n.id
"""

LIST_FOR_AGENTS = fill_in(LIST_OF_AGENTS, "/* and */", "")
LIST_UNCLEARED_FOR_AGENTS = fill_in(LIST_OF_AGENTS, "/* and */", "AND NOT n.cleared")

QueueItem = tuple[UUID, int, datetime, int, int]
"""The agent, the maximum number, the time, the number that fit in any case, and the bytes of the others."""


class Queues:
    """Reads queues from the table `notification`, short ones together and long ones one at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._all = pool.group_commit("queues", partial(self._list_each, LIST_FOR_AGENTS))
        self._uncleared = pool.group_commit(
            "uncleared queues", partial(self._list_each, LIST_UNCLEARED_FOR_AGENTS)
        )
        self._long = pool.group_commit("long queues", self._list_long, max_items=1)

    async def list_for_agent(
        self, agent_id: UUID, limit: int, now: datetime, *, include_cleared: bool
    ) -> Chunk[Notification]:
        """List the first `limit` notifications of the queue, as many as fit `MAX_BYTES` but at least one.

        High ones come before low ones, then the oldest first. Those scheduled for later are left out.
        Concurrent reads share a statement.
        """
        short = await (self._all if include_cleared else self._uncleared).add(
            (agent_id, limit, now, 0, SHARED_BYTES)
        )
        if not short.is_cut:
            return short
        statement: LiteralString = LIST_FOR_AGENTS if include_cleared else LIST_UNCLEARED_FOR_AGENTS
        return await self._long.add((statement, (agent_id, limit, now, 1, MAX_BYTES)))

    async def _list_long(self, items: list[tuple[LiteralString, QueueItem]]) -> list[Chunk[Notification]]:
        return [(await self._list_each(statement, [item]))[0] for statement, item in items]

    async def _list_each(self, statement: LiteralString, items: list[QueueItem]) -> list[Chunk[Notification]]:
        queues: list[Chunk[Notification]] = [Chunk([], is_cut=False) for _ in items]
        for row in await self._pool.fetch(statement, *zip(*items, strict=True), ROW_BYTES):
            queue = queues[row["ordinal"] - 1]
            if row["fits"]:
                queue.append(from_row(Notification, row))
            else:
                queue.is_cut = True
        return queues


MAX_TITLE_CHARACTERS = 1000

# A low notification is never active: it came when it was created or when it fell due.
LIST_SINCE = """
SELECT item.ordinal, n.id, n.priority, n.source, left(n.title, $5) AS title
FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::timestamptz[])
     WITH ORDINALITY AS item (agent_id, since, max_count, now, ordinal)
CROSS JOIN LATERAL (SELECT FROM agent WHERE id = item.agent_id AND deleted_at IS NULL OFFSET 0) a
CROSS JOIN LATERAL (
    SELECT n.*
    FROM notification n, coalesce(n.activated_at, greatest(n.scheduled_for, n.created_at)) AS came_at
    WHERE n.agent_id = item.agent_id AND NOT n.cleared
      AND (n.scheduled_for IS NULL OR n.scheduled_for <= item.now)
      AND came_at >= item.since
    ORDER BY came_at DESC, n.id DESC LIMIT item.max_count
) n
ORDER BY item.ordinal, n.priority = 'high' DESC, n.created_at, n.id
"""

SinceItem = tuple[UUID, datetime, int, datetime]
"""The agent, the given time, the maximum number, and the current time."""


@dataclass(frozen=True, slots=True)
class RecentNotification:
    """The part of a notification that a run is told between turns; a long title is cut."""

    id: UUID
    priority: Priority
    source: Source
    title: str


class RecentNotifications:
    """The table `notification`, as a run reads it between turns."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reads = pool.group_commit("recent notifications", self._list_each)

    async def list_for_agent(
        self, agent_id: UUID, *, since: datetime, limit: int, now: datetime
    ) -> list[RecentNotification]:
        """List the latest `limit` notifications since `since`, uncleared and due.

        They are ordered high before low, then oldest first. Concurrent reads share a statement.
        """
        return await self._reads.add((agent_id, since, limit, now))

    async def _list_each(self, items: Sequence[SinceItem]) -> list[list[RecentNotification]]:
        queues: list[list[RecentNotification]] = [[] for _ in items]
        columns = zip(*items, strict=True)
        for row in await self._pool.fetch(LIST_SINCE, *columns, MAX_TITLE_CHARACTERS):
            queues[row["ordinal"] - 1].append(from_row(RecentNotification, row))
        return queues
