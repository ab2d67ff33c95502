"""Agent states: the narrow rows that supervisors own, read with all the facts and updated under a guard."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from storage.agent_facts import (
    NO_LIMITS,
    WAKE_LIMITS,
    AgentFacts,
    AgentState,
    AttendedAgent,
    Counts,
    DueAgent,
    Orphan,
    PendingGroup,
    RowVersion,
    StateUpdate,
    WakeLimits,
)
from storage.agents.state_updates import update_states
from storage.errors import RunLimitReached
from storage.history.runs import JournalFacts, get_journal_facts, with_starts
from storage.history.usage import get_budgets
from storage.postgres.connections import STARTS
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import Conditions
from storage.postgres.statement import fetch_all, from_row

# One row for each kind of pending notification, so that a queue of any length is a handful of rows. One
# statement, so that wake_seq and the queue come from one snapshot. Only a reminder can be ahead: any other
# notification became active when it was written, even if the clock was set back since. Spending is read by a
# second statement, and only where a cap exists: with two more tables here, PostgreSQL would plan this
# statement again at each execution. OFFSET 0, here and in the statements below: without statistics PostgreSQL
# expects one agent that is not deleted, and would compare each agent with each item. The two selects hide how
# long the arrays are: PostgreSQL would plan this statement again whenever there are fewer than it expects.
GET_FACTS = """
SELECT s.*, a.created_at, a.name, a.max_sleep_hours,
       a.debounce_window_seconds AS agent_window_seconds,
       t.debounce_window_seconds AS template_window_seconds,
       o.paused AS organization_paused, (SELECT paused_at FROM instance) AS instance_paused_at,
       (SELECT paused_because FROM instance) AS instance_paused_because,
       coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS agent_cap,
       o.max_cost_usd_per_day AS organization_cap,
       coalesce(a.unpriced, t.unpriced, 'refuse') AS agent_unpriced, o.unpriced AS organization_unpriced,
       a.model, a.timezone,
       coalesce(a.max_wakes_per_hour, t.max_wakes_per_hour) AS max_wakes_per_hour,
       coalesce(a.max_wakes_per_day, t.max_wakes_per_day) AS max_wakes_per_day,
       coalesce(a.quiet_hours, t.quiet_hours, '') AS quiet_hours,
       coalesce(cardinality(r.notifications) + r.notifications_left_out, 0) AS pending_at_start,
       r.interrupted_sleep_until, coalesce(r.wake_reason, '') AS wake_reason,
       p.source, p.reminder, p.urgent, p.period, p.count, p.first_at, p.last_at
FROM unnest((SELECT $1::uuid[]), (SELECT $2::timestamptz[])) AS i (agent_id, now)
JOIN agent_state s ON s.agent_id = i.agent_id
CROSS JOIN LATERAL (SELECT * FROM agent WHERE id = i.agent_id AND deleted_at IS NULL OFFSET 0) a
JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN run r ON r.id = s.run_id
LEFT JOIN LATERAL (
    SELECT n.source, n.scheduled_for IS NOT DISTINCT FROM n.activated_at AS reminder, n.urgent,
           CASE
               WHEN n.scheduled_for = n.activated_at AND n.activated_at > i.now THEN 'ahead'
               WHEN n.activated_at <= s.stopped_at THEN 'stopped'
               WHEN n.activated_at <= s.seen_until AND n.scheduled_for IS DISTINCT FROM n.activated_at
                    THEN CASE WHEN s.stopped_at IS NULL THEN 'before' ELSE 'stopped' END
               WHEN n.activated_at <= s.last_started_at THEN 'before'
               WHEN s.last_started_at IS NULL THEN 'since'
               WHEN n.activated_at > s.last_ended_at AND s.run_id IS NULL THEN 'since'
               ELSE 'during'
           END AS period,
           count(*) AS count, min(n.activated_at) AS first_at, max(n.activated_at) AS last_at
    FROM notification n
    WHERE n.agent_id = i.agent_id AND n.activated_at IS NOT NULL
    GROUP BY 1, 2, 3, 4
) p ON true
"""

END_OPEN_SPANS = """
UPDATE span SET ended_at = greatest($2, started_at),
                error = coalesce(nullif(error, ''), 'cut short: the run was ended')
WHERE trace_id = $1 AND ended_at IS NULL
"""

LOCK = "SELECT 1 FROM agent_state WHERE agent_id = $1 FOR NO KEY UPDATE"

# Two statements: the second one sees what was committed before the first one got the lock.
LOCK_STARTS = "SELECT pg_advisory_xact_lock($1, hashtext($2))"
COUNT_RUNS = """
SELECT count(*) FROM agent_state WHERE organization_id = $1 AND phase <> 'asleep' AND run_id IS NOT NULL
"""

LIST_QUEUED_BEFORE = """
SELECT agent_id FROM agent_state
WHERE organization_id = $1 AND queued_at IS NOT NULL AND (queued_at, agent_id) < ($2, $3)
ORDER BY queued_at, agent_id LIMIT $4
"""

LIST_DUE = """
SELECT agent_id, node_id, next_due_at FROM agent_state
WHERE next_due_at <= $1 AND (next_due_at, agent_id) > ($2, $3)
ORDER BY next_due_at, agent_id LIMIT $4
"""

# Each of these agents has a wake ahead or is about to be signalled again. Paused agents and those of paused
# organizations are left out: they are signalled when the pause ends.
LIST_WITH_ACTIVE = """
SELECT DISTINCT s.agent_id, s.node_id FROM notification n
JOIN agent_state s ON s.agent_id = n.agent_id
WHERE n.activated_at <= $1 AND n.agent_id > $2
  AND s.status = 'sleeping' AND s.queued_at IS NULL AND NOT s.paused
  AND (s.stopped_at IS NULL OR n.activated_at > greatest(s.stopped_at, s.seen_until))
  AND n.organization_id NOT IN (SELECT id FROM organization WHERE paused)
  AND (SELECT paused_at FROM instance) IS NULL /* and */
ORDER BY s.agent_id LIMIT $3
"""

# Agents with a notification that became active before the clock was set back to an earlier time.
LIST_ACTIVATED_LATER = """
SELECT DISTINCT s.agent_id FROM notification n
JOIN agent_state s ON s.agent_id = n.agent_id
WHERE n.activated_at > $1 AND n.scheduled_for IS DISTINCT FROM n.activated_at AND s.status = 'sleeping'
"""

# Agents that are not idle: a run goes on, a due time or a start lies ahead, or something is active. A pause,
# its end and another cap affect only these.
LIST_NON_IDLE = """
SELECT s.agent_id FROM agent a JOIN agent_state s ON s.agent_id = a.id
WHERE a.deleted_at IS NULL AND s.agent_id > $1 AND s.status <> 'archived' /* and */
  AND (s.status = 'running'
       OR coalesce(s.queued_at, s.next_due_at, s.sleep_until, s.retry_at, s.run_requested_at) IS NOT NULL
       OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at IS NOT NULL))
ORDER BY s.agent_id LIMIT $2
"""

# Sleeping agents with something ahead but no due time, so that nothing would come back to them.
LIST_WITHOUT_DUE_TIME = """
SELECT s.agent_id FROM agent_state s
JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
JOIN organization o ON o.id = a.organization_id AND NOT o.paused
WHERE s.agent_id > $2 AND (SELECT paused_at FROM instance) IS NULL AND s.status = 'sleeping' AND NOT s.paused
  AND s.next_due_at IS NULL AND s.queued_at IS NULL
  AND (coalesce(s.sleep_until, s.retry_at, s.run_requested_at) IS NOT NULL
       OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at > $1))
ORDER BY s.agent_id LIMIT $3
"""

# Agents that wait for the renewal of a budget, or that the event log has as over budget, although their
# budgets are not used up (any more).
LIST_WITHIN_BUDGET = """
SELECT a.id AS agent_id FROM (
    SELECT agent_id FROM agent_state WHERE phase = 'over_budget'
    UNION
    SELECT s.agent_id FROM agent_state s
    WHERE s.next_due_at = $2
      AND (least(s.sleep_until, s.retry_at, s.run_requested_at) < $2
           OR EXISTS (SELECT FROM notification n WHERE n.agent_id = s.agent_id AND n.activated_at < $2))
) s
JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN spending of_agent
    ON of_agent.owner_id = a.id AND of_agent.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
LEFT JOIN spending of_organization
    ON of_organization.owner_id = o.id AND of_organization.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
WHERE a.id > $3
  AND coalesce(of_agent.cost_usd, 0)
      < coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day, 'infinity')
  AND coalesce(of_organization.cost_usd, 0) < coalesce(o.max_cost_usd_per_day, 'infinity')
ORDER BY a.id LIMIT $4
"""

# Resting agents over a budget that the event log does not have as over budget: their own, their template's or
# their organization's. A cap of 0 is reached by agents that have spent nothing. OFFSET 0 makes the planner
# begin with the organizations and templates, which are few, and read the states of these agents only.
LIST_NEWLY_OVER_BUDGET = """
SELECT s.agent_id FROM (
    SELECT a.id FROM organization o
    LEFT JOIN spending
        ON spending.owner_id = o.id AND spending.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
    CROSS JOIN LATERAL (
        SELECT id FROM agent WHERE organization_id = o.id AND id > $2 AND deleted_at IS NULL OFFSET 0
    ) a
    WHERE coalesce(spending.cost_usd, 0) >= o.max_cost_usd_per_day
    UNION
    SELECT a.id FROM spending
    JOIN agent a ON a.id = spending.owner_id
    LEFT JOIN template t ON t.id = a.template_id
    WHERE spending.day = ($1::timestamptz AT TIME ZONE 'UTC')::date
      AND spending.cost_usd >= coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day)
      AND a.id > $2 AND a.deleted_at IS NULL
    UNION
    SELECT id FROM agent WHERE max_cost_usd_per_day = 0 AND id > $2 AND deleted_at IS NULL
    UNION
    SELECT a.id FROM template t
    CROSS JOIN LATERAL (
        SELECT id FROM agent
        WHERE template_id = t.id AND max_cost_usd_per_day IS NULL AND id > $2 AND deleted_at IS NULL
        OFFSET 0
    ) a
    WHERE t.max_cost_usd_per_day = 0
) a
CROSS JOIN LATERAL (SELECT * FROM agent_state WHERE agent_id = a.id OFFSET 0) s
WHERE s.status = 'sleeping' AND NOT s.paused
  AND s.phase NOT IN ('over_budget', 'quarantined')
ORDER BY s.agent_id LIMIT $3
"""

# Agents of dead nodes ($1: the living ones) with a run, or without a due time, as a run that lingered during
# a pause leaves them; and agents whose start is queued where nothing starts any more ($2: the nodes that
# stay), also if a version wrote them that knew no nodes. Runs come first, then the queued starts in their
# order. All other agents are found by the scans when they are due.
LIST_ORPHANS = """
WITH orphan AS (
    SELECT agent_id, run_id, queued_at, last_started_at FROM agent_state
    WHERE node_id <> ALL($1::integer[])
      AND (run_id IS NOT NULL OR (next_due_at IS NULL AND queued_at IS NULL))
    UNION ALL
    SELECT s.agent_id, s.run_id, s.queued_at, s.last_started_at
    FROM run r JOIN agent_state s ON s.agent_id = r.agent_id AND s.run_id = r.id
    WHERE r.outcome IS NULL AND s.node_id IS NULL
    UNION ALL
    SELECT agent_id, run_id, queued_at, last_started_at FROM agent_state
    WHERE queued_at IS NOT NULL AND (node_id <> ALL($2::integer[])) IS NOT FALSE AND run_id IS NULL
)
SELECT agent_id, run_id IS NOT NULL AS had_run FROM orphan
ORDER BY run_id IS NULL, queued_at, last_started_at, agent_id
"""

LIST_ATTENDED = "SELECT agent_id, version, wake_seq FROM agent_state WHERE node_id = $1"

# The first agents in the queue of each organization that wait at other nodes than $1, the organizations with
# the fewest runs first, counting those that the result would start. An organization gets no more than $3 runs
# (0: no limit), else each node with free slots would try in vain every second. The recursion jumps along the
# index from one organization to the next.
LIST_QUEUED_ELSEWHERE = """
WITH RECURSIVE organization AS (
    (SELECT organization_id AS id FROM agent_state
     WHERE queued_at IS NOT NULL ORDER BY organization_id LIMIT 1)
    UNION ALL
    SELECT (SELECT s.organization_id FROM agent_state s
            WHERE s.queued_at IS NOT NULL AND s.organization_id > o.id ORDER BY s.organization_id LIMIT 1)
    FROM organization o WHERE o.id IS NOT NULL
)
SELECT q.agent_id FROM organization o
CROSS JOIN LATERAL (
    SELECT agent_id, row_number() OVER (ORDER BY queued_at, agent_id) AS place FROM (
        SELECT agent_id, queued_at FROM agent_state
        WHERE organization_id = o.id AND queued_at IS NOT NULL AND node_id <> $1
        ORDER BY queued_at, agent_id LIMIT $2
    ) first
) q
CROSS JOIN LATERAL (
    SELECT count(*) AS runs FROM run WHERE organization_id = o.id AND outcome IS NULL
) under_way
WHERE $3::integer = 0 OR q.place + under_way.runs <= $3
ORDER BY q.place + under_way.runs, q.agent_id LIMIT $2
"""

LIST_BLOCKERS = """
SELECT id FROM notification
WHERE agent_id = $1 AND activated_at IS NOT NULL
  AND (activated_at <= $2 OR scheduled_for IS DISTINCT FROM activated_at)
ORDER BY activated_at, id LIMIT $3
"""

LIST_IDS = """
SELECT s.agent_id FROM agent_state s JOIN agent a ON a.id = s.agent_id
WHERE a.deleted_at IS NULL AND s.agent_id > $1 /* and */
ORDER BY s.agent_id LIMIT $2
"""

# Each organization's agents of this name are found along an index.
LIST_IDS_OF_NAME = """
SELECT a.id AS agent_id FROM organization o
CROSS JOIN LATERAL (
    SELECT a.id FROM agent a
    WHERE a.organization_id = o.id AND lower(a.name) = lower($3) AND a.deleted_at IS NULL AND a.id > $1
    ORDER BY a.id LIMIT $2
) a
WHERE true /* and */
ORDER BY a.id LIMIT $2
"""

COUNT = """
SELECT count(*) FILTER (WHERE status = 'running') AS running,
       count(*) FILTER (WHERE status = 'sleeping') AS sleeping,
       count(*) FILTER (WHERE status = 'archived') AS archived,
       count(*) FILTER (WHERE phase = 'held_by_limits') AS held_by_limits,
       coalesce(array_agg(agent_id) FILTER (
           WHERE failures >= $2::integer AND retry_at > $1 AND run_id IS NULL AND NOT paused
             AND (SELECT paused_at FROM instance) IS NULL AND NOT EXISTS (
               SELECT FROM agent a JOIN organization o ON o.id = a.organization_id
               WHERE a.id = agent_id AND o.paused
           )
       ), '{}') AS quarantined,
       count(next_due_at) AS timers,
       min(next_due_at) AS next_due_at,
       (SELECT min(n.activated_at) FROM notification n WHERE n.activated_at <= $1) AS oldest_active_at
FROM agent_state
"""

FIRST_ID = UUID(int=0)
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


class AgentStates:
    """The table `agent_state`, as supervisors use it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reads = pool.group_commit("agent facts", self._get_many)
        self._updates = pool.group_commit("agent updates", self._update_many, is_write=True)

    async def get_facts(self, agent_id: UUID, now: datetime) -> AgentFacts | None:
        """Return the agent's facts, None if there is no such agent. Concurrent reads share a statement."""
        return await self._reads.add((agent_id, now))

    async def update(self, update: StateUpdate) -> bool:
        """Store the update; return False if its guard no longer holds. Concurrent updates share a commit.

        Raise AnsweredBefore if the receipt of the update exists already.
        """
        is_made = await self._updates.add(update)
        return await self._update_alone(update) if is_made is None else is_made

    async def start(self, update: StateUpdate, organization_id: UUID, max_runs: int) -> bool:
        """Store the start of a run like `update`, if the organization has fewer than `max_runs` runs.

        Starts of the organization wait for each other, and agents that were queued earlier come first. Raise
        RunLimitReached.
        """
        state = update.before

        async def write(connection: Connection) -> bool:
            await connection.execute(LOCK_STARTS, STARTS, str(organization_id))
            left = max_runs - await connection.fetchval(COUNT_RUNS, organization_id)
            if left <= 0:
                raise RunLimitReached
            place = (state.queued_at or LAST_MOMENT, state.agent_id)
            earlier = await connection.fetch(LIST_QUEUED_BEFORE, organization_id, *place, left)
            if len(earlier) == left:
                raise RunLimitReached([row["agent_id"] for row in earlier])
            await connection.execute(LOCK, state.agent_id)
            return await LockedState(connection, None).update(update)

        return await self._pool.write(write, f"start of agent {state.agent_id}")

    async def end_open_spans(self, trace_id: UUID, ended_at: datetime) -> None:
        """End the spans that a run which was cut short has left open in its trace."""
        await self._pool.execute(END_OPEN_SPANS, trace_id, ended_at)

    async def get_journal_facts(self, run_id: UUID) -> JournalFacts:
        """Return what the rows of other tables tell about the run."""
        return await get_journal_facts(self._pool, run_id)

    @asynccontextmanager
    async def locked(self, agent_id: UUID, now: datetime) -> AsyncIterator["LockedState"]:
        """Lock the agent's row, read its facts and let the caller update it.

        Nothing can become active for the agent until the block ends.
        """
        async with self._pool.locking(LOCK, agent_id) as connection:
            facts = await _read_facts(connection, {agent_id: now})
            yield LockedState(connection, facts.get(agent_id))

    async def list_due(
        self, until: datetime, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[DueAgent]:
        """List agents that are due by `until`, earliest first.

        `after` is the due time and the id of the last one of the page before.
        """
        due_at, agent_id = after or (FIRST_MOMENT, FIRST_ID)
        return await fetch_all(self._pool, DueAgent, LIST_DUE, until, due_at, agent_id, limit)

    async def list_with_active_notification(
        self, now: datetime, after: UUID | None, limit: int
    ) -> list[AttendedAgent]:
        """List sleeping agents with an active notification, by id; `after` is the last one seen."""
        conditions = Conditions(now, after or FIRST_ID, limit)
        sql = conditions.into(LIST_WITH_ACTIVE)
        return await fetch_all(self._pool, AttendedAgent, sql, *conditions.parameters)

    async def list_activated_later(self, now: datetime) -> list[UUID]:
        """List sleeping agents with a notification that is no reminder and became active after `now`."""
        return await self._list_ids(LIST_ACTIVATED_LATER, now)

    async def list_stuck(self, now: datetime, limit: int) -> list[UUID]:
        """List sleeping agents with an active notification that nothing will start, by id.

        No due time lies ahead of them, unlike in a backoff or a quarantine.
        """
        conditions = Conditions(now, FIRST_ID, limit)
        conditions.add("(s.next_due_at IS NULL OR s.next_due_at <= $)", now)
        return await self._list_ids(conditions.into(LIST_WITH_ACTIVE), *conditions.parameters)

    async def list_non_idle(
        self,
        after: UUID | None,
        limit: int,
        *,
        organization_id: UUID | None = None,
        template_id: UUID | None = None,
    ) -> list[UUID]:
        """List the agents of an organization or a template that are not idle, by id, from after one on."""
        conditions = Conditions(after or FIRST_ID, limit)
        conditions.add_optional("a.organization_id = $", organization_id)
        conditions.add_optional("a.template_id = $", template_id)
        return await self._list_ids(conditions.into(LIST_NON_IDLE), *conditions.parameters)

    async def list_without_due_time(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        """List sleeping agents with something ahead but no due time, by id. Scans the whole table."""
        return await self._list_ids(LIST_WITHOUT_DUE_TIME, now, after or FIRST_ID, limit)

    async def list_within_budget(
        self, now: datetime, renewed_at: datetime, after: UUID | None, limit: int
    ) -> list[UUID]:
        """List agents that wait for the renewal at `renewed_at` within their budgets, by id."""
        return await self._list_ids(LIST_WITHIN_BUDGET, now, renewed_at, after or FIRST_ID, limit)

    async def list_newly_over_budget(self, now: datetime, after: UUID | None, limit: int) -> list[UUID]:
        """List resting agents that are over a budget, but not so in the event log, by id."""
        return await self._list_ids(LIST_NEWLY_OVER_BUDGET, now, after or FIRST_ID, limit)

    async def list_orphans(self, living: Collection[int], staying: Collection[int]) -> list[Orphan]:
        """List runs of none of the `living` nodes, and queued starts of none of the `staying` ones."""
        return await fetch_all(self._pool, Orphan, LIST_ORPHANS, list(living), list(staying))

    async def list_attended(self, node_id: int) -> list[RowVersion]:
        """List the agents that this node attends, in no order."""
        return await fetch_all(self._pool, RowVersion, LIST_ATTENDED, node_id)

    async def list_queued_elsewhere(self, node_id: int, limit: int, max_runs: int) -> list[UUID]:
        """List agents that wait for a slot of another node, organizations with the fewest runs first.

        Those that would have more than `max_runs` runs of their organization (0: no limit) are left out.
        """
        return await self._list_ids(LIST_QUEUED_ELSEWHERE, node_id, limit, max_runs)

    async def list_ids(
        self, organization_id: UUID | None, after: UUID | None, limit: int, name: str | None = None
    ) -> list[UUID]:
        """List agents by id, of one organization or of all; `after` is the last one seen.

        With a `name`, list those that have it, ignoring case.
        """
        if name is None:
            conditions, statement = Conditions(after or FIRST_ID, limit), LIST_IDS
            conditions.add_optional("a.organization_id = $", organization_id)
        else:
            conditions, statement = Conditions(after or FIRST_ID, limit, name), LIST_IDS_OF_NAME
            conditions.add_optional("o.id = $", organization_id)
        return await self._list_ids(conditions.into(statement), *conditions.parameters)

    async def list_blockers(self, agent_id: UUID, now: datetime, limit: int) -> list[UUID]:
        """List the ids of the agent's active notifications, oldest activation first."""
        return [row["id"] for row in await self._pool.fetch(LIST_BLOCKERS, agent_id, now, limit)]

    async def count(self, now: datetime, *, quarantine_failures: int) -> Counts:
        """Count all agents; one is quarantined after `quarantine_failures` failed runs in a row.

        Scans the whole table: for a maintenance service, not for a request.
        """
        [row] = await self._pool.fetch(COUNT, now, quarantine_failures)
        return from_row(Counts, row)

    async def _list_ids(self, sql: str, *args: object) -> list[UUID]:
        return [row["agent_id"] for row in await self._pool.fetch(sql, *args)]

    async def _get_many(self, items: list[tuple[UUID, datetime]]) -> list[AgentFacts | None]:
        moments: dict[UUID, datetime] = {}
        for agent_id, now in items:
            moments[agent_id] = max(now, moments.get(agent_id, now))
        facts = await _read_facts(self._pool, moments)
        return [facts.get(agent_id) for agent_id, _ in items]

    async def _update_alone(self, update: StateUpdate) -> bool:
        agent_id = update.before.agent_id

        async def write(connection: Connection) -> bool:
            await connection.execute(LOCK, agent_id)
            return await LockedState(connection, None).update(update)

        return await self._pool.write(write, f"update of agent {agent_id}")

    async def _update_many(self, updates: list[StateUpdate]) -> list[bool | None]:
        """Return for each update whether it was made, None if another transaction holds the row.

        Of several updates of one agent only the first is made: a statement can change a row only once.
        """
        firsts = {update.before.agent_id: update for update in reversed(updates)}
        is_made = await update_states(self._pool.change, list(firsts.values()))
        return [
            is_made[update.before.agent_id] if firsts[update.before.agent_id] is update else False
            for update in updates
        ]


class LockedState:
    """One agent's row, locked by this transaction."""

    def __init__(self, connection: Connection, facts: AgentFacts | None) -> None:
        self._connection = connection
        self.facts = facts

    async def update(self, update: StateUpdate) -> bool:
        """Store the update in the lock's transaction; return False if its guard does not hold."""
        [is_made] = (await update_states(self._connection.fetch, [update])).values()
        return bool(is_made)


async def _read_facts(
    database: "Pool | Connection", moments: Mapping[UUID, datetime]
) -> dict[UUID, AgentFacts]:
    """Return the facts of these agents, each as they are by its moment; those of deleted ones are missing."""
    rows_by_agent: dict[UUID, list[asyncpg.Record]] = {}  # they differ only in the pending notifications
    for row in await database.fetch(GET_FACTS, list(moments), list(moments.values())):
        rows_by_agent.setdefault(row["agent_id"], []).append(row)
    firsts = [rows[0] for rows in rows_by_agent.values()]
    budgets = await get_budgets(database, firsts, moments)
    limits = {
        row["agent_id"]: from_row(WakeLimits, row, fills_hour_at=None, fills_day_at=None)
        for row in firsts
        if any(row[name] for name in WAKE_LIMITS)
    }
    if limits:
        limits = await with_starts(database, limits, moments)
    return {
        agent_id: from_row(
            AgentFacts,
            rows[0],
            state=from_row(AgentState, rows[0]),
            budgets=budgets.get(agent_id, ()),
            limits=limits.get(agent_id, NO_LIMITS),
            pending=tuple(from_row(PendingGroup, row) for row in rows if row["source"] is not None),
        )
        for agent_id, rows in rows_by_agent.items()
    }
