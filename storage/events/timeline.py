"""One agent's timeline in the event log: the changes of its phase, and the marks beside them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from asyncpg import Record

from storage.events.events import to_event
from storage.events.model import INSTANCE, Event
from storage.model import Priority
from storage.postgres.pool import Pool
from storage.postgres.statement import fetch_all, fetch_one

# The present, and the oldest event of the log, before which nothing is known of anybody.
GET_ORIGIN = """
SELECT a.organization_id, a.created_at, o.paused, s.phase, s.phase_since, s.run_id,
       i.paused_at AS instance_paused_at, i.paused_because AS instance_paused_because,
       e.id AS oldest_id, e.at AS oldest_at
FROM instance i CROSS JOIN agent a
JOIN organization o ON o.id = a.organization_id
JOIN agent_state s ON s.agent_id = a.id
LEFT JOIN (SELECT id, at FROM event ORDER BY id LIMIT 1) e ON true
WHERE a.id = $1 AND a.deleted_at IS NULL
"""

# The last change before the period, those of the period, and the first one after it.
LIST_CHANGES = """
SELECT id, at, phase, run_id, data->>'from' AS before, data->>'why' AS why, data->>'next_at' AS next_at FROM (
    (SELECT * FROM event
     WHERE agent_id = $1 AND phase IS NOT NULL AND at <= $2
     ORDER BY at DESC, id DESC LIMIT 1)
    UNION ALL
    (SELECT * FROM event
     WHERE agent_id = $1 AND phase IS NOT NULL AND at > $2 AND at < $3
     ORDER BY at, id LIMIT $4)
    UNION ALL
    (SELECT * FROM event
     WHERE agent_id = $1 AND phase IS NOT NULL AND at >= $3
     ORDER BY at, id LIMIT 1)
) e
"""

# The change that led to the phase at a moment: the first one after the last other phase.
GET_ENTRY = """
WITH other AS (
    SELECT at, id FROM event
    WHERE agent_id = $1 AND phase IS NOT NULL AND phase <> $4 AND (at, id) <= ($2, $3)
    ORDER BY at DESC, id DESC LIMIT 1
)
SELECT at, data->>'from' = phase AS is_continued FROM event
WHERE agent_id = $1 AND phase IS NOT NULL AND (at, id) <= ($2, $3)
  AND (at, id) > (coalesce((SELECT at FROM other), '-infinity'), coalesce((SELECT id FROM other), 0))
ORDER BY at, id LIMIT 1
"""

LIST_PAUSES = """
(SELECT * FROM event
 WHERE organization_id = $1 AND type IN ('organization.paused', 'organization.unpaused')
   AND at <= $2
 ORDER BY at DESC, id DESC LIMIT 1)
UNION ALL
(SELECT * FROM event
 WHERE organization_id = $1 AND type IN ('organization.paused', 'organization.unpaused')
   AND at > $2 AND at < $3
 ORDER BY at, id LIMIT $4)
UNION ALL
(SELECT * FROM event
 WHERE organization_id = $1 AND type IN ('organization.paused', 'organization.unpaused')
   AND at >= $3
 ORDER BY at, id LIMIT 1)
UNION ALL
(SELECT * FROM event
 WHERE organization_id = $5 AND agent_id IS NULL AND type = 'audit'
   AND data->>'action' IN ('paused', 'unpaused')
 ORDER BY id DESC LIMIT $6)
"""
MAX_INSTANCE_PAUSES = 1_000  # of the whole instance, the last ones


@dataclass(frozen=True, slots=True)
class Origin:
    """What the log says of an agent at present, and the oldest event that it has of anybody, if any."""

    organization_id: UUID
    created_at: datetime
    paused: bool
    phase: str
    phase_since: datetime | None
    run_id: UUID | None
    oldest_id: int | None
    oldest_at: datetime | None
    instance_paused_at: datetime | None
    instance_paused_because: str


class PhaseChange(NamedTuple):
    """A change of an agent's phase: from `before`, if that is known, with the sentence that explains it.

    `next_at`: when it is to wake by itself, as the text of a timestamp. A tuple, because an answer is made of
    thousands of them, and tuples are built three times as fast.
    """

    id: int
    at: datetime
    phase: str
    run_id: UUID | None
    before: str | None
    why: str | None
    next_at: str | None


class PhaseEvents:
    """The events of the log that change the phases of agents, and the pauses of their organizations."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get_origin(self, agent_id: UUID) -> Origin | None:
        """Return what the log is known to say of the agent at present; None if it does not exist."""
        return await fetch_one(self._pool, Origin, GET_ORIGIN, agent_id)

    async def list_changes(
        self, agent_id: UUID, start: datetime, end: datetime, limit: int
    ) -> list[PhaseChange]:
        """List the changes of the phase from `start` to before `end`, at most `limit` of them.

        The last one before the period and the first one after it are in the list, too.
        """
        rows = await self._pool.fetch(LIST_CHANGES, agent_id, start, end, limit)
        return [_change(row) for row in rows]

    async def get_since(self, agent_id: UUID, change: PhaseChange) -> datetime | None:
        """Return when the phase of a change began, before it or with it; None if that is not known."""
        row = await self._pool.fetchrow(GET_ENTRY, agent_id, change.at, change.id, change.phase)
        return None if row is None or row["is_continued"] else row["at"]

    async def list_pauses(
        self, organization_id: UUID, start: datetime, end: datetime, limit: int
    ) -> list[Event]:
        """List the begins and ends of pauses from `start` to before `end`, at most `limit` of them.

        The last one before the period and the first one after it are in the list, too, and all those of the
        whole instance.
        """
        parameters = (organization_id, start, end, limit, INSTANCE, MAX_INSTANCE_PAUSES)
        rows = await self._pool.fetch(LIST_PAUSES, *parameters)
        return [to_event(row) for row in rows]


def _change(row: Record) -> PhaseChange:
    return PhaseChange(
        row["id"], row["at"], row["phase"], row["run_id"], row["before"], row["why"], row["next_at"]
    )


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
