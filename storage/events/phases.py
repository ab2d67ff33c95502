"""The phases of one agent in the event log: the changes of a period."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from asyncpg import Record

from storage.events.events import to_event
from storage.events.model import Event
from storage.postgres.pool import Pool
from storage.postgres.rows import fetch_one

# The present, and the oldest event of the log, before which nothing is known of anybody.
GET_ORIGIN = """
SELECT a.organization_id, a.created_at, o.paused, s.phase, s.phase_since, s.run_id,
       e.id AS oldest_id, e.at AS oldest_at
FROM agent a
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
"""


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

        The last one before the period and the first one after it are in the list, too.
        """
        rows = await self._pool.fetch(LIST_PAUSES, organization_id, start, end, limit)
        return [to_event(row) for row in rows]


def _change(row: Record) -> PhaseChange:
    return PhaseChange(
        row["id"], row["at"], row["phase"], row["run_id"], row["before"], row["why"], row["next_at"]
    )
