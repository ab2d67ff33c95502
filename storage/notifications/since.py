"""The notifications that came into an agent's queue since a given time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.model import Priority, Source
from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Pool
from storage.postgres.rows import from_row

MAX_TITLE_CHARACTERS = 1000

# A low notification is never active: it came when it was created or when it fell due.
LIST_FOR_AGENTS = """
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
        self._reads = GroupCommit("recent notifications", self._list_each)

    async def close(self) -> None:
        await self._reads.close()

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
        for row in await self._pool.fetch(LIST_FOR_AGENTS, *columns, MAX_TITLE_CHARACTERS):
            queues[row["ordinal"] - 1].append(from_row(RecentNotification, row))
        return queues
