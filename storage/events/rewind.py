"""One agent's recording in the event log: all of its events in a period, with its runs and notifications."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from storage.events.events import to_event
from storage.events.model import Event
from storage.model import Outcome, Priority, Source
from storage.postgres.pool import Pool
from storage.postgres.statement import from_row

MAX_WAITING = 4_000  # notifications from before a period

# Phases and marks are found by time, along their indexes; the ends of runs lie between them, by id.
LIST_EVENTS = """
WITH edge AS (
    (SELECT id FROM event WHERE agent_id = $1 AND phase IS NOT NULL AND at >= $2 ORDER BY at, id LIMIT 1)
    UNION ALL
    (SELECT id FROM event
     WHERE agent_id = $1 AND (phase IS NULL OR actor <> '' AND actor NOT LIKE 'run:%') AND type <> 'run.ended'
       AND at >= $2
     ORDER BY at, id LIMIT 1)
)
SELECT * FROM event
WHERE agent_id = $1 AND id >= (SELECT min(id) FROM edge) AND at >= $2 AND at < $3
  AND (phase IS NOT NULL OR type LIKE 'notification.%'
       OR type IN ('run.ended', 'budget.reached', 'agent.changed'))
ORDER BY id LIMIT $4
"""

# The runs of the period and of two days before, whose starts fill limits, and one on either side.
LIST_RUNS = """
SELECT r.id, r.wake_reason, r.started_at, r.ended_at, r.outcome, r.interrupted_sleep_until,
       coalesce(u.cost_usd, 0) AS cost_usd
FROM (
    (SELECT * FROM run WHERE agent_id = $1 AND started_at < $2::timestamptz - interval '2 days'
     ORDER BY started_at DESC, id DESC LIMIT 1)
    UNION ALL
    (SELECT * FROM run
     WHERE agent_id = $1 AND started_at >= $2::timestamptz - interval '2 days' AND started_at < $3
     ORDER BY started_at, id LIMIT $4)
    UNION ALL
    (SELECT * FROM run WHERE agent_id = $1 AND started_at >= $3 ORDER BY started_at, id LIMIT 1)
) r
LEFT JOIN (
    SELECT trace_id, sum(cost_usd) AS cost_usd FROM usage_record
    WHERE agent_id = $1 AND occurred_at >= $2::timestamptz - interval '2 days'
    GROUP BY trace_id
) u ON u.trace_id = r.id
ORDER BY r.started_at, r.id
"""

LIST_NOTIFICATIONS = """
SELECT id, organization_id, agent_id, source, source_id, priority, created_at, scheduled_for, urgent, cleared
FROM notification WHERE agent_id = $1 AND id = ANY($2::uuid[])
UNION
(SELECT id, organization_id, agent_id, source, source_id, priority, created_at, scheduled_for, urgent, cleared
 FROM notification WHERE agent_id = $1 AND NOT cleared AND created_at < $3
 ORDER BY created_at DESC, id DESC LIMIT $4)
"""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run as a replay needs it."""

    id: UUID
    wake_reason: str
    started_at: datetime
    ended_at: datetime | None
    outcome: Outcome | None
    interrupted_sleep_until: datetime | None
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class KnownNotification:
    """A notification that still exists, as it is now and a replay needs it."""

    id: UUID
    organization_id: UUID
    agent_id: UUID
    source: Source
    source_id: str
    priority: Priority
    created_at: datetime
    scheduled_for: datetime | None
    urgent: bool
    cleared: bool


class RecordedEvents:
    """The rows of one agent from which its recording is made: many, so a thread makes values of them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_events(self, agent_id: UUID, start: datetime, end: datetime, limit: int) -> list[Event]:
        """List the first `limit` events of the agent from `start` to before `end` that a replay needs."""
        rows = await self._pool.fetch(LIST_EVENTS, agent_id, start, end, limit)
        return await asyncio.to_thread(lambda: [to_event(row) for row in rows])

    async def list_runs(
        self, agent_id: UUID, start: datetime, end: datetime, limit: int
    ) -> list[RecordedRun]:
        """List the runs by start: at most `limit` from two days before, and one on either side."""
        rows = await self._pool.fetch(LIST_RUNS, agent_id, start, end, limit)
        return await asyncio.to_thread(lambda: [from_row(RecordedRun, row) for row in rows])

    async def list_notifications(
        self, agent_id: UUID, ids: Collection[UUID], start: datetime
    ) -> dict[UUID, KnownNotification]:
        """Return these notifications, and the last ones from before `start` that are not cleared, by id."""
        rows = await self._pool.fetch(LIST_NOTIFICATIONS, agent_id, ids, start, MAX_WAITING)
        return await asyncio.to_thread(lambda: {row["id"]: from_row(KnownNotification, row) for row in rows})
