"""The marks of one agent's timeline: the events beside its phases, and what they are about."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from storage.events.events import to_event
from storage.events.model import Event
from storage.model import Priority
from storage.postgres.pool import Pool
from storage.postgres.rows import fetch_all

# The last ones of the period. An event with a phase is a mark only if a person or a program asked for it.
LIST_MARKS = """
SELECT * FROM event
WHERE agent_id = $1 AND (phase IS NULL OR actor <> '' AND actor NOT LIKE 'run:%')
  AND type <> 'run.ended' AND at >= $2 AND at < $3
ORDER BY at DESC, id DESC LIMIT $4
"""

COUNT_MARKS = """
SELECT count(*) FROM event
WHERE agent_id = $1 AND (phase IS NULL OR actor <> '' AND actor NOT LIKE 'run:%')
  AND type <> 'run.ended' AND at >= $2 AND at < $3
"""

LIST_NOTIFICATIONS = """
SELECT id, left(title, $2) AS title, priority, created_at, scheduled_for, cleared_at
FROM notification WHERE id = ANY($1::uuid[]) AND agent_id = $3
"""

LIST_REMINDERS = """
SELECT id, left(title, $5) AS title, priority, created_at, scheduled_for, cleared_at
FROM notification
WHERE agent_id = $1 AND activated_at > $2 AND activated_at < $3
ORDER BY activated_at, id LIMIT $4
"""

# Those that the events of the period do not tell of. There is no index by agent and `cleared_at`, so only the
# last ones from before the period are looked at.
LIST_WAITING = """
SELECT id, left(title, $5) AS title, priority, created_at, scheduled_for, cleared_at FROM (
    (SELECT id, title, priority, created_at, scheduled_for, cleared_at FROM notification
     WHERE agent_id = $1 AND NOT cleared AND created_at < $2
     ORDER BY created_at DESC, id DESC LIMIT $4)
    UNION
    (SELECT id, title, priority, created_at, scheduled_for, cleared_at FROM notification
     WHERE agent_id = $1 AND created_at < $2
     ORDER BY created_at DESC, id DESC LIMIT $4)
) n
WHERE (cleared_at IS NULL OR cleared_at >= $3) AND (scheduled_for IS NULL OR scheduled_for < $3)
ORDER BY created_at, id
"""

MAX_TITLE = 200  # characters


@dataclass(frozen=True, slots=True)
class NotificationTimes:
    """The moments of a notification, its priority, and the beginning of its title."""

    id: UUID
    title: str
    priority: Priority
    created_at: datetime
    scheduled_for: datetime | None
    cleared_at: datetime | None


class MarkEvents:
    """The events of the log that are marks of a timeline, and the notifications that they are about."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_marks(self, agent_id: UUID, start: datetime, end: datetime, limit: int) -> list[Event]:
        """List the last `limit` marks of the agent from `start` to before `end`, the latest first."""
        return [to_event(row) for row in await self._pool.fetch(LIST_MARKS, agent_id, start, end, limit)]

    async def count_marks(self, agent_id: UUID, start: datetime, end: datetime) -> int:
        """Count the marks of the agent from `start` to before `end`."""
        count: int = await self._pool.fetchval(COUNT_MARKS, agent_id, start, end)
        return count

    async def list_notifications(self, ids: Collection[UUID], agent_id: UUID) -> list[NotificationTimes]:
        """List those of the notifications that the agent still has."""
        if not ids:
            return []
        return await fetch_all(
            self._pool, NotificationTimes, LIST_NOTIFICATIONS, list(ids), MAX_TITLE, agent_id
        )

    async def list_reminders(
        self, agent_id: UUID, after: datetime, end: datetime, limit: int
    ) -> list[NotificationTimes]:
        """List the first reminders of the agent that fall due after one moment and before another."""
        return await fetch_all(
            self._pool, NotificationTimes, LIST_REMINDERS, agent_id, after, end, limit, MAX_TITLE
        )

    async def list_waiting(
        self, agent_id: UUID, start: datetime, end: datetime, limit: int
    ) -> list[NotificationTimes]:
        """List notifications from before `start` that were not cleared before `end`, the oldest first.

        Only the last `limit` notifications and the last `limit` uncleared ones from before `start` are looked
        at. Reminders that were not due before `end` are left out.
        """
        return await fetch_all(
            self._pool, NotificationTimes, LIST_WAITING, agent_id, start, end, limit, MAX_TITLE
        )
