"""What has come into agents' queues since a moment, whatever else is waiting there."""

from datetime import datetime
from uuid import UUID

from storage.model import Notification
from storage.notifications.notifications import notification_of
from storage.postgres.group_commit import GroupCommit
from storage.postgres.leadership import Sleep
from storage.postgres.pool import Pool

# A low one is never active: it came when it was made, or fell due.
LIST_FOR_AGENTS = """
SELECT asked.ordinal, n.*
FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::timestamptz[])
     WITH ORDINALITY AS asked (agent_id, since, most, now, ordinal)
JOIN agent a ON a.id = asked.agent_id AND a.deleted_at IS NULL
CROSS JOIN LATERAL (
    SELECT n.*
    FROM notification n, coalesce(n.activated_at, greatest(n.scheduled_for, n.created_at)) AS came_at
    WHERE n.agent_id = asked.agent_id AND NOT n.cleared
      AND (n.scheduled_for IS NULL OR n.scheduled_for <= asked.now)
      AND came_at >= asked.since
    ORDER BY came_at DESC, n.id DESC LIMIT asked.most
) n
ORDER BY asked.ordinal, n.priority = 'high' DESC, n.created_at, n.id
"""


class RecentNotifications:
    """The table `notification`, as runs look at it between turns."""

    def __init__(self, pool: Pool, sleep: Sleep | None = None) -> None:
        self._pool = pool
        self._reads = GroupCommit("newcomers", self._list_each, sleep=sleep)

    async def close(self) -> None:
        await self._reads.close()

    async def list_for_agent(
        self, agent_id: UUID, *, since: datetime, limit: int, now: datetime
    ) -> list[Notification]:
        """The last ones, uncleared and due; high before low, then oldest first.

        Concurrent reads share a statement.
        """
        return await self._reads.add((agent_id, since, limit, now))

    async def _list_each(self, items: list[tuple[UUID, datetime, int, datetime]]) -> list[list[Notification]]:
        queues: list[list[Notification]] = [[] for _ in items]
        for row in await self._pool.fetch(LIST_FOR_AGENTS, *zip(*items, strict=True)):
            queues[row["ordinal"] - 1].append(notification_of(row))
        return queues
