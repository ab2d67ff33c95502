"""The narrow rows that supervisors own: read with all that the rules need, moved under a guard."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from storage.agents.state_updates import MOVE, UPDATE_WAITING, update_parameters
from storage.history.spending import budgets_of
from storage.model import (
    ActivationPeriod,
    AgentFacts,
    AgentState,
    AgentStatus,
    Budget,
    Counts,
    PendingGroup,
    Source,
    StateUpdate,
)
from storage.postgres.group_commit import GroupCommit
from storage.postgres.leadership import Sleep
from storage.postgres.pool import Connection, Pool

# One row for each kind of waiting notification, so a queue of any length is a handful of rows; and one
# statement, so wake_seq and the queue are of one snapshot. A notification that is no reminder is never
# ahead: it became active when it was written, whatever a clock says since. What was spent is asked for apart,
# where something caps it: two more tables here, and PostgreSQL would plan the statement anew each time.
LOOK = """
SELECT s.*, a.organization_id, a.created_at, a.name, a.max_sleep_hours,
       a.debounce_window_seconds AS agent_window_seconds,
       t.debounce_window_seconds AS template_window_seconds,
       o.paused,
       coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS agent_cap,
       o.max_cost_usd_per_day AS organization_cap,
       coalesce(cardinality(r.notifications), 0) AS waiting_at_start,
       r.interrupted_sleep_until, coalesce(r.wake_reason, '') AS wake_reason,
       w.source, w.reminder, w.era, w.count, w.first_at, w.last_at
FROM unnest($1::uuid[], $2::timestamptz[]) AS i (agent_id, now)
JOIN agent_state s ON s.agent_id = i.agent_id
JOIN agent a ON a.id = i.agent_id AND a.deleted_at IS NULL
JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN run r ON r.id = s.run_id
LEFT JOIN LATERAL (
    SELECT n.source, n.scheduled_for IS NOT DISTINCT FROM n.activated_at AS reminder,
           CASE
               WHEN n.scheduled_for = n.activated_at AND n.activated_at > i.now THEN 'ahead'
               WHEN n.activated_at <= s.stopped_at THEN 'stopped'
               WHEN n.activated_at <= greatest(s.last_started_at, s.seen_until) THEN 'before'
               WHEN s.last_started_at IS NULL THEN 'since'
               WHEN n.activated_at > s.last_ended_at AND s.run_id IS NULL THEN 'since'
               ELSE 'during'
           END AS era,
           count(*) AS count, min(n.activated_at) AS first_at, max(n.activated_at) AS last_at
    FROM notification n
    WHERE n.agent_id = i.agent_id AND n.activated_at IS NOT NULL
    GROUP BY 1, 2, 3
) w ON true
"""

LOCK = "SELECT 1 FROM agent_state WHERE agent_id = $1 FOR NO KEY UPDATE"

LIST_DUE = """
SELECT agent_id, next_due_at FROM agent_state
WHERE next_due_at <= $1 AND (next_due_at, agent_id) > ($2, $3)
ORDER BY next_due_at, agent_id LIMIT $4
"""

# Sleeping agents with something active: each has a wake ahead or is about to be told again. Not those of a
# paused organization: its agents are told when that ends.
LIST_ATTENTION = """
SELECT DISTINCT s.agent_id FROM notification n
JOIN agent_state s ON s.agent_id = n.agent_id
WHERE n.activated_at <= $1 AND n.agent_id > $2
  AND s.status = 'sleeping' AND s.queued_at IS NULL
  AND (s.stopped_at IS NULL OR n.activated_at > s.stopped_at)
  AND n.organization_id NOT IN (SELECT id FROM organization WHERE paused)
ORDER BY s.agent_id LIMIT $3
"""

# Of those, the ones whom nothing will start: no moment lies ahead, as in a backoff or a quarantine.
LIST_STUCK = """
SELECT DISTINCT s.agent_id FROM notification n
JOIN agent_state s ON s.agent_id = n.agent_id
WHERE n.activated_at <= $1
  AND s.status = 'sleeping' AND s.queued_at IS NULL
  AND (s.stopped_at IS NULL OR n.activated_at > s.stopped_at)
  AND (s.next_due_at IS NULL OR s.next_due_at <= $1)
  AND n.organization_id NOT IN (SELECT id FROM organization WHERE paused)
ORDER BY s.agent_id LIMIT $2
"""

# Those that a pause concerns, or its end, or another cap: something goes on, lies ahead, or waits.
LIST_CONCERNED = """
SELECT s.agent_id FROM agent a JOIN agent_state s ON s.agent_id = a.id
WHERE a.organization_id = $1 AND a.deleted_at IS NULL AND s.agent_id > $2 AND s.status <> 'archived'
  AND (s.status = 'running'
       OR coalesce(s.queued_at, s.next_due_at, s.sleep_until, s.retry_at, s.run_requested_at) IS NOT NULL
       OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at IS NOT NULL))
ORDER BY s.agent_id LIMIT $3
"""

LIST_CONCERNED_OF_TEMPLATE = LIST_CONCERNED.replace("a.organization_id = $1", "a.template_id = $1")

# Sleeping agents with something ahead and no moment to look at it.
LIST_UNARMED = """
SELECT s.agent_id FROM agent_state s
JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
JOIN organization o ON o.id = a.organization_id AND NOT o.paused
WHERE s.agent_id > $2 AND s.status = 'sleeping' AND s.next_due_at IS NULL AND s.queued_at IS NULL
  AND (coalesce(s.sleep_until, s.retry_at, s.run_requested_at) IS NOT NULL
       OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at > $1))
ORDER BY s.agent_id LIMIT $3
"""

# Agents that wait for the renewal of a budget, but for which there is something to spend.
LIST_WITHIN_BUDGET = """
SELECT s.agent_id FROM agent_state s
JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN spending of_agent
    ON of_agent.owner_id = a.id AND of_agent.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
LEFT JOIN spending of_organization
    ON of_organization.owner_id = o.id AND of_organization.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
WHERE s.next_due_at = $2 AND s.agent_id > $3
  AND (least(s.sleep_until, s.retry_at, s.run_requested_at) < $2
       OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at < $2))
  AND coalesce(of_agent.cost_usd, 0)
      < coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day, 'infinity')
  AND coalesce(of_organization.cost_usd, 0) < coalesce(o.max_cost_usd_per_day, 'infinity')
ORDER BY s.agent_id LIMIT $4
"""

LIST_RUNNING = "SELECT agent_id FROM agent_state WHERE run_id IS NOT NULL ORDER BY last_started_at, agent_id"

LIST_QUEUED = "SELECT agent_id FROM agent_state WHERE queued_at IS NOT NULL ORDER BY queued_at, agent_id"

LIST_BLOCKERS = """
SELECT id FROM notification
WHERE agent_id = $1 AND activated_at IS NOT NULL
  AND (activated_at <= $2 OR scheduled_for IS DISTINCT FROM activated_at)
ORDER BY activated_at, id LIMIT $3
"""

LIST_IDS = """
SELECT s.agent_id FROM agent_state s JOIN agent a ON a.id = s.agent_id
WHERE a.deleted_at IS NULL AND s.agent_id > $1
ORDER BY s.agent_id LIMIT $2
"""

LIST_IDS_OF_ORGANIZATION = """
SELECT s.agent_id FROM agent_state s JOIN agent a ON a.id = s.agent_id
WHERE a.deleted_at IS NULL AND s.agent_id > $1 AND a.organization_id = $3
ORDER BY s.agent_id LIMIT $2
"""

COUNT = """
SELECT count(*) FILTER (WHERE status = 'running') AS running,
       count(*) FILTER (WHERE status = 'sleeping') AS sleeping,
       count(*) FILTER (WHERE status = 'archived') AS archived,
       coalesce(array_agg(agent_id) FILTER (
           WHERE failures >= 5 AND retry_at > $1 AND run_id IS NULL AND NOT EXISTS (
               SELECT FROM agent a JOIN organization o ON o.id = a.organization_id
               WHERE a.id = agent_id AND o.paused
           )
       ), '{}') AS quarantined,
       count(next_due_at) AS timers,
       min(next_due_at) AS next_due_at,
       (SELECT min(n.activated_at) FROM notification n WHERE n.activated_at <= $1) AS oldest_active_at
FROM agent_state
"""

STATE_FIELDS = tuple(field.name for field in fields(AgentState))
FIRST_ID = UUID(int=0)
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)


class AgentStates:
    """The table `agent_state`, as supervisors use it."""

    def __init__(self, pool: Pool, sleep: Sleep | None = None) -> None:
        self._pool = pool
        self._looks = GroupCommit("agent looks", self._look_at_many, sleep=sleep)
        self._moves = GroupCommit("agent moves", self._update_many, sleep=sleep)

    async def close(self) -> None:
        await self._moves.close()
        await self._looks.close()

    async def get_facts(self, agent_id: UUID, now: datetime) -> AgentFacts | None:
        """The circumstances of one agent; None if there is none. Concurrent looks share a statement."""
        return await self._looks.add((agent_id, now))

    async def update(self, update: StateUpdate) -> bool:
        """Make one move; False if its guard no longer holds. Concurrent moves share a commit.

        AnsweredBefore if there is a receipt like the move's.
        """
        is_made = await self._moves.add(update)
        return await self._update_alone(update) if is_made is None else is_made

    @asynccontextmanager
    async def locked(self, agent_id: UUID, now: datetime) -> AsyncIterator["LockedState"]:
        """Look and move with the row locked: whoever makes a notification active waits until this is over."""
        async with self._pool.locking(LOCK, agent_id) as connection:
            rows = await connection.fetch(LOOK, [agent_id], [now])
            budgets = await budgets_of(rows, {agent_id: now}, connection.fetch)
            yield LockedState(connection, _facts(rows, budgets) if rows else None)

    async def list_due(
        self, until: datetime, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[tuple[UUID, datetime]]:
        """Agents to look at by `until`, earliest first, with the moment; `after` is the last one seen."""
        moment, agent_id = after or (FIRST_MOMENT, FIRST_ID)
        rows = await self._pool.fetch(LIST_DUE, until, moment, agent_id, limit)
        return [(row["agent_id"], row["next_due_at"]) for row in rows]

    async def list_attention(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        """Sleeping agents with an active notification, by id; `after` is the last one seen."""
        rows = await self._pool.fetch(LIST_ATTENTION, now, after or FIRST_ID, limit)
        return [row["agent_id"] for row in rows]

    async def list_stuck(self, now: datetime, limit: int) -> list[UUID]:
        """Sleeping agents with an active notification and nothing ahead, by id."""
        rows = await self._pool.fetch(LIST_STUCK, now, limit)
        return [row["agent_id"] for row in rows]

    async def list_concerned(self, organization_id: UUID, after: UUID | None, limit: int) -> list[UUID]:
        """The organization's agents to which anything happens or is about to, by id."""
        rows = await self._pool.fetch(LIST_CONCERNED, organization_id, after or FIRST_ID, limit)
        return [row["agent_id"] for row in rows]

    async def list_concerned_of_template(
        self, template_id: UUID, after: UUID | None, limit: int
    ) -> list[UUID]:
        """The same, of the agents that use the template."""
        rows = await self._pool.fetch(LIST_CONCERNED_OF_TEMPLATE, template_id, after or FIRST_ID, limit)
        return [row["agent_id"] for row in rows]

    async def list_unarmed(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        """Sleeping agents with something ahead that nobody would come back to, by id. Scans the table."""
        rows = await self._pool.fetch(LIST_UNARMED, now, after or FIRST_ID, limit)
        return [row["agent_id"] for row in rows]

    async def list_within_budget(
        self, now: datetime, renewed_at: datetime, after: UUID | None, limit: int
    ) -> list[UUID]:
        """Agents that wait for `renewed_at` though their budgets are not reached, by id."""
        rows = await self._pool.fetch(LIST_WITHIN_BUDGET, now, renewed_at, after or FIRST_ID, limit)
        return [row["agent_id"] for row in rows]

    async def list_running(self) -> list[UUID]:
        """Agents with a run that has not ended, longest first."""
        return [row["agent_id"] for row in await self._pool.fetch(LIST_RUNNING)]

    async def list_queued(self) -> list[UUID]:
        """Agents whose start waits for a run slot, longest first."""
        return [row["agent_id"] for row in await self._pool.fetch(LIST_QUEUED)]

    async def list_ids(self, organization_id: UUID | None, after: UUID | None, limit: int) -> list[UUID]:
        """Agents by id, of one organization or of all; `after` is the last one seen."""
        if organization_id is None:
            rows = await self._pool.fetch(LIST_IDS, after or FIRST_ID, limit)
        else:
            rows = await self._pool.fetch(LIST_IDS_OF_ORGANIZATION, after or FIRST_ID, limit, organization_id)
        return [row["agent_id"] for row in rows]

    async def list_blockers(self, agent_id: UUID, now: datetime, limit: int) -> list[UUID]:
        """The agent's active notifications, oldest activation first."""
        rows = await self._pool.fetch(LIST_BLOCKERS, agent_id, now, limit)
        return [row["id"] for row in rows]

    async def count(self, now: datetime) -> Counts:
        """Counts over all agents. A scan of the table: for a duty, not for a request."""
        [row] = await self._pool.fetch(COUNT, now)
        return Counts(**{**row, "quarantined": frozenset(row["quarantined"])})

    async def _look_at_many(self, items: list[tuple[UUID, datetime]]) -> list[AgentFacts | None]:
        moments: dict[UUID, datetime] = {}
        for agent_id, now in items:
            moments[agent_id] = max(now, moments.get(agent_id, now))
        rows = await self._pool.fetch(LOOK, list(moments), list(moments.values()))
        found: dict[UUID, list[asyncpg.Record]] = {}
        for row in rows:
            found.setdefault(row["agent_id"], []).append(row)
        budgets = await budgets_of([rows[0] for rows in found.values()], moments, self._pool.fetch)
        facts = {agent_id: _facts(rows, budgets) for agent_id, rows in found.items()}
        return [facts.get(agent_id) for agent_id, _ in items]

    async def _update_alone(self, update: StateUpdate) -> bool:
        return await self._pool.with_lock_retry(
            lambda connection: LockedState(connection, None).update(update)
        )

    async def _update_many(self, updates: list[StateUpdate]) -> list[bool | None]:
        """Whether each was made; None where somebody else holds the row.

        Of several moves of one agent only the first is made: one statement changes a row but once.
        """
        firsts = {update.before.agent_id: update for update in reversed(updates)}
        rows = await self._pool.fetch(MOVE, *update_parameters(list(firsts.values())))
        made = {row["agent_id"]: row["moved"] if row["locked"] else None for row in rows}
        return [
            made[update.before.agent_id] if firsts[update.before.agent_id] is update else False
            for update in updates
        ]


class LockedState:
    """One agent's row, locked by this transaction."""

    def __init__(self, connection: Connection, facts: AgentFacts | None) -> None:
        self._connection = connection
        self.facts = facts

    async def update(self, update: StateUpdate) -> bool:
        """Make a move within the lock's transaction."""
        [row] = await self._connection.fetch(UPDATE_WAITING, *update_parameters([update]))
        return bool(row["moved"])


def _facts(rows: Sequence[asyncpg.Record], budgets: Mapping[UUID, tuple[Budget, ...]]) -> AgentFacts:
    """From the rows of one agent: they differ only in the waiting notifications."""
    row = rows[0]
    state = {name: row[name] for name in STATE_FIELDS}
    state["status"] = AgentStatus(state["status"])
    return AgentFacts(
        organization_id=row["organization_id"],
        state=AgentState(**state),
        created_at=row["created_at"],
        name=row["name"],
        paused=row["paused"],
        max_sleep_hours=row["max_sleep_hours"],
        agent_window_seconds=row["agent_window_seconds"],
        template_window_seconds=row["template_window_seconds"],
        budgets=budgets.get(state["agent_id"], ()),
        pending=tuple(_waiting(row) for row in rows if row["source"] is not None),
        pending_at_start=row["waiting_at_start"],
        interrupted_sleep_until=row["interrupted_sleep_until"],
        wake_reason=row["wake_reason"],
    )


def _waiting(row: asyncpg.Record) -> PendingGroup:
    return PendingGroup(
        source=Source(row["source"]),
        reminder=row["reminder"],
        period=ActivationPeriod(row["era"]),
        count=row["count"],
        first_at=row["first_at"],
        last_at=row["last_at"],
    )
