"""Overviews of organizations: how many agents are in which phase, who is in trouble, and who wakes next.

Every list is read along an index of each organization. So it costs what it contains, not what exists.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from storage.parked_calls import CallKind
from storage.postgres.pool import Pool
from storage.postgres.statement import fetch_all

ALL_PHASES = ""  # in `PhaseCount`: all agents of the organization, those asleep included

COUNT_PHASES = """
SELECT organization_id, phase, count(*) AS agents FROM agent_state
WHERE organization_id = ANY($1::uuid[]) AND phase <> 'asleep' GROUP BY 1, 2
UNION ALL
SELECT organization_id, '', count(*) FROM agent
WHERE organization_id = ANY($1::uuid[]) AND deleted_at IS NULL GROUP BY 1
"""

LIST_IN_PHASE = """
SELECT s.agent_id, a.name, a.timezone, s.organization_id, coalesce(s.phase_since, a.created_at) AS since
FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT agent_id, organization_id, phase_since FROM agent_state
    WHERE organization_id = o.id AND phase = $2 AND phase <> 'asleep'
    ORDER BY phase_since, agent_id LIMIT $3
) s
JOIN agent a ON a.id = s.agent_id
ORDER BY s.phase_since, s.agent_id LIMIT $3
"""

# $3: agents that nothing will start, although something is active. They need not have a moment to act.
LIST_FORGOTTEN = """
SELECT s.agent_id, a.name, a.timezone, s.organization_id,
       coalesce(s.next_due_at, s.phase_since, a.created_at) AS since
FROM agent_state s JOIN agent a ON a.id = s.agent_id
WHERE s.organization_id = ANY($1::uuid[]) AND (s.next_due_at <= $2 OR s.agent_id = ANY($3::uuid[]))
  AND s.status = 'sleeping' AND s.queued_at IS NULL
ORDER BY since, s.agent_id LIMIT $4
"""

# An agent that is asleep has nothing active, unless it was stopped or forgotten. The other lists have agents
# over their budgets and in quarantine, and one that its limits hold is meant to wait.
LIST_UNCLEARED = """
SELECT s.agent_id, a.name, a.timezone, s.organization_id, n.since FROM (
    SELECT agent_id, organization_id FROM agent_state
    WHERE organization_id = ANY($1::uuid[]) AND phase <> 'asleep'
      AND phase NOT IN ('archived', 'over_budget', 'held_by_limits', 'quarantined')
    UNION ALL
    SELECT agent_id, organization_id FROM agent_state
    WHERE organization_id = ANY($1::uuid[]) AND stopped_at IS NOT NULL AND phase = 'asleep'
) s
CROSS JOIN LATERAL (
    SELECT n.activated_at AS since FROM notification n
    WHERE n.agent_id = s.agent_id AND n.activated_at <= $2 ORDER BY n.activated_at LIMIT 1
) n
JOIN agent a ON a.id = s.agent_id
ORDER BY n.since, s.agent_id LIMIT $3
"""

# The other lists have those over their budgets and in quarantine. An agent that is asleep has nothing left to
# try again for.
LIST_FAILING = """
SELECT s.agent_id, a.name, a.timezone, s.organization_id, coalesce(s.last_ended_at, s.phase_since) AS since,
       s.failures
FROM agent_state s JOIN agent a ON a.id = s.agent_id
WHERE s.organization_id = ANY($1::uuid[]) AND s.phase <> 'asleep'
  AND s.phase NOT IN ('archived', 'over_budget', 'quarantined') AND s.failures > 0
ORDER BY since, s.agent_id LIMIT $2
"""

LIST_WAKING = """
SELECT s.agent_id, a.name, a.timezone FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT agent_id, next_due_at FROM agent_state
    WHERE organization_id = o.id AND next_due_at <= $2
    ORDER BY next_due_at, agent_id LIMIT $3
) s
JOIN agent a ON a.id = s.agent_id
ORDER BY s.next_due_at, s.agent_id LIMIT $3
"""

COUNT_WAKING = """
SELECT count(*) FROM agent_state WHERE organization_id = ANY($1::uuid[]) AND next_due_at <= $2
"""

LIST_NEXT_REMINDERS = """
SELECT i.agent_id, n.activated_at AS due_at, n.title FROM unnest($1::uuid[]) AS i (agent_id)
CROSS JOIN LATERAL (
    SELECT n.activated_at, left(n.title, 500) AS title FROM notification n
    WHERE n.agent_id = i.agent_id AND n.activated_at > $2 AND n.scheduled_for = n.activated_at
    ORDER BY n.activated_at LIMIT 1
) n
"""

LIST_PAUSED = """
SELECT o.id AS organization_id, o.name, CASE WHEN o.paused THEN e.at ELSE i.paused_at END AS since,
       o.paused AS is_itself, i.paused_because AS because
FROM organization o CROSS JOIN instance i
LEFT JOIN LATERAL (
    SELECT e.at FROM event e
    WHERE e.organization_id = o.id AND e.type IN ('organization.paused', 'organization.unpaused')
    ORDER BY e.at DESC, e.id DESC LIMIT 1
) e ON true
WHERE o.id = ANY($1::uuid[]) AND (o.paused OR i.paused_at IS NOT NULL)
ORDER BY since NULLS FIRST, o.id
"""

# A webhook that a person has switched off is no trouble.
LIST_FAILING_WEBHOOKS = """
SELECT id, organization_id, url, coalesce(disabled_at, failing_since) AS since,
       disabled_at IS NOT NULL AS is_disabled, disabled_reason
FROM webhook
WHERE organization_id = ANY($1::uuid[])
  AND (disabled_at IS NOT NULL OR is_active AND failing_since IS NOT NULL)
ORDER BY since, id LIMIT $2
"""

LIST_WITHOUT_ZONE = """
SELECT s.id, s.agent_id, a.name, a.timezone, s.organization_id, s.title,
       coalesce(s.last_at, s.created_at) AS since, coalesce(s.timezone, a.timezone) AS lost_timezone
FROM schedule s JOIN agent a ON a.id = s.agent_id AND a.deleted_at IS NULL
WHERE s.organization_id = ANY($1::uuid[]) AND s.paused_reason = 'timezone' ORDER BY since, s.id LIMIT $2
"""


# Along the index of what waits for a person.
LIST_ASKING = """
SELECT p.id, p.agent_id, a.name, a.timezone, p.organization_id, p.created_at AS since, p.kind, p.tool,
       left(p.question, 500) AS question, p.expires_at
FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT * FROM parked_call p WHERE p.organization_id = o.id AND p.state = 'pending'
    ORDER BY p.created_at, p.id LIMIT $2
) p
JOIN agent a ON a.id = p.agent_id AND a.deleted_at IS NULL
ORDER BY since, p.id LIMIT $2
"""


@dataclass(frozen=True, slots=True)
class PhaseCount:
    """How many agents of an organization are in a phase of the event log, or in all phases."""

    organization_id: UUID
    phase: str
    agents: int


@dataclass(frozen=True, slots=True)
class TroubledAgent:
    """An agent that a person should look at, and since when."""

    agent_id: UUID
    name: str
    timezone: str
    organization_id: UUID
    since: datetime


@dataclass(frozen=True, slots=True)
class FailingAgent(TroubledAgent):
    """An agent whose last runs count toward a quarantine."""

    failures: int


@dataclass(frozen=True, slots=True)
class ScheduleWithoutZone(TroubledAgent):
    """A schedule whose time zone is not known any more, with its agent."""

    id: UUID
    title: str
    lost_timezone: str


@dataclass(frozen=True, slots=True)
class AskingAgent(TroubledAgent):
    """A call or a question for which an agent waits for a person."""

    id: UUID
    kind: CallKind
    tool: str
    question: str
    expires_at: datetime | None


class WakingAgent(NamedTuple):
    """An agent that is to act."""

    agent_id: UUID
    name: str
    timezone: str


class NextReminder(NamedTuple):
    """The next reminder of an agent that is not due yet."""

    agent_id: UUID
    due_at: datetime
    title: str


@dataclass(frozen=True, slots=True)
class PausedOrganization:
    """An organization whose agents are paused. `since` is None if that is no longer in the event log."""

    organization_id: UUID
    name: str
    since: datetime | None
    is_itself: bool = True  # not only the whole instance, which is paused `because`
    because: str = ""


@dataclass(frozen=True, slots=True)
class FailingWebhook:
    """A webhook whose last delivery failed, or that the service has switched off."""

    id: UUID
    organization_id: UUID
    url: str
    since: datetime
    is_disabled: bool
    disabled_reason: str


class Overviews:
    """Reads what concerns the agents of several organizations at once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def count_phases(self, organization_ids: Sequence[UUID]) -> list[PhaseCount]:
        """Count the agents by organization and phase, but for `asleep`, and those in all phases."""
        return await fetch_all(self._pool, PhaseCount, COUNT_PHASES, organization_ids)

    async def list_in_phase(
        self, organization_ids: Sequence[UUID], phase: str, limit: int
    ) -> list[TroubledAgent]:
        """List the agents that are in the phase, but for `asleep`, the longest first."""
        return await fetch_all(self._pool, TroubledAgent, LIST_IN_PHASE, organization_ids, phase, limit)

    async def list_forgotten(
        self, organization_ids: Sequence[UUID], due_before: datetime, stuck: Collection[UUID], limit: int
    ) -> list[TroubledAgent]:
        """List the agents that nothing has started although they were due, and those that are `stuck`."""
        parameters = (organization_ids, due_before, list(stuck), limit)
        return await fetch_all(self._pool, TroubledAgent, LIST_FORGOTTEN, *parameters)

    async def list_uncleared(
        self, organization_ids: Sequence[UUID], active_before: datetime, limit: int
    ) -> list[TroubledAgent]:
        """List the agents with a high-priority notification that is active since long, the oldest first.

        Those over their budgets, held by their limits and in quarantine are left out.
        """
        return await fetch_all(
            self._pool, TroubledAgent, LIST_UNCLEARED, organization_ids, active_before, limit
        )

    async def list_failing(self, organization_ids: Sequence[UUID], limit: int) -> list[FailingAgent]:
        """List the agents whose last runs count toward a quarantine that has not begun."""
        return await fetch_all(self._pool, FailingAgent, LIST_FAILING, organization_ids, limit)

    async def list_waking(
        self, organization_ids: Sequence[UUID], until: datetime, limit: int
    ) -> list[WakingAgent]:
        """List the agents that are to act by `until`, the next one first."""
        rows = await self._pool.fetch(LIST_WAKING, organization_ids, until, limit)
        return [WakingAgent(*row) for row in rows]

    async def count_waking(self, organization_ids: Sequence[UUID], until: datetime) -> int:
        """Count the agents that are to act by `until`."""
        count: int = await self._pool.fetchval(COUNT_WAKING, organization_ids, until)
        return count

    async def list_next_reminders(self, agent_ids: Sequence[UUID], now: datetime) -> list[NextReminder]:
        """List the next reminder of each of the agents that has one."""
        rows = await self._pool.fetch(LIST_NEXT_REMINDERS, agent_ids, now)
        return [NextReminder(*row) for row in rows]

    async def list_paused(self, organization_ids: Sequence[UUID]) -> list[PausedOrganization]:
        """List those of the organizations that are paused, the longest pause first."""
        return await fetch_all(self._pool, PausedOrganization, LIST_PAUSED, organization_ids)

    async def list_failing_webhooks(
        self, organization_ids: Sequence[UUID], limit: int
    ) -> list[FailingWebhook]:
        """List the webhooks that fail, and those that the service has switched off, the longest first."""
        return await fetch_all(self._pool, FailingWebhook, LIST_FAILING_WEBHOOKS, organization_ids, limit)

    async def list_schedules_without_zone(
        self, organization_ids: Sequence[UUID], limit: int
    ) -> list[ScheduleWithoutZone]:
        """List the schedules that have stopped because their time zone is not known any more."""
        return await fetch_all(self._pool, ScheduleWithoutZone, LIST_WITHOUT_ZONE, organization_ids, limit)

    async def list_asking(self, organization_ids: Sequence[UUID], limit: int) -> list[AskingAgent]:
        """List the calls and questions that wait for a person, the oldest first."""
        return await fetch_all(self._pool, AskingAgent, LIST_ASKING, organization_ids, limit)
