"""The notifications that came into an agent's queue since a given time."""

from datetime import datetime
from functools import partial
from uuid import UUID

from storage.model import Notification
from storage.notifications.notifications import list_each
from storage.postgres.group_commit import GroupCommit
from storage.postgres.leadership import Sleep
from storage.postgres.pool import Pool

# A low notification is never active: it came when it was created or when it fell due.
LIST_FOR_AGENTS = """
SELECT item.ordinal, n.*
FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::timestamptz[])
     WITH ORDINALITY AS item (agent_id, since, max_count, now, ordinal)
JOIN agent a ON a.id = item.agent_id AND a.deleted_at IS NULL
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


class RecentNotifications:
    """The table `notification`, as a run reads it between turns."""

    def __init__(self, pool: Pool, sleep: Sleep | None = None) -> None:
        self._reads = GroupCommit(
            "recent notifications", partial(list_each, pool, LIST_FOR_AGENTS), sleep=sleep
        )

    async def close(self) -> None:
        await self._reads.close()

    async def list_for_agent(
        self, agent_id: UUID, *, since: datetime, limit: int, now: datetime
    ) -> list[Notification]:
        """List the latest `limit` notifications since `since`, uncleared and due.

        They are ordered high before low, then oldest first. Concurrent reads share a statement.
        """
        return await self._reads.add((agent_id, since, limit, now))
