"""Facts about the whole service that its status shows, and the database that it runs on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from storage.postgres.pool import Pool

READ = """
SELECT current_setting('server_version') AS postgresql,
       (SELECT max(version) FROM schema_migration) AS schema_version, paused_at, paused_because,
       (SELECT json_object_agg(node_id, agents) FROM (
           SELECT node_id, count(*) AS agents FROM agent_state WHERE node_id IS NOT NULL GROUP BY 1
       ) attended) AS attended,
       (SELECT count(*) FROM webhook
        WHERE disabled_at IS NOT NULL OR is_active AND failing_since IS NOT NULL) AS failing_webhooks
FROM instance
"""

LIST_ENDED = """
SELECT id, name, version, joined_at, ended_at,
       (SELECT count(*) FROM run WHERE node_id = node.id AND outcome = 'interrupted') AS interrupted_runs
FROM node WHERE state = 'dead' AND ended_at > $1 ORDER BY id DESC LIMIT $2
"""
ENDED_FOR = timedelta(days=1)
MAX_ENDED = 100

# Counted by organization first: to join all agents with their organizations takes several times as long.
COUNT_PHASES = """
SELECT o.paused OR (SELECT paused_at FROM instance) IS NOT NULL AS paused, c.phase,
       sum(c.agents)::bigint AS agents
FROM (
    SELECT organization_id, phase, count(*) AS agents FROM agent_state WHERE phase <> 'asleep' GROUP BY 1, 2
    UNION ALL
    SELECT organization_id, '', count(*) FROM agent WHERE deleted_at IS NULL GROUP BY 1
) c
JOIN organization o ON o.id = c.organization_id
GROUP BY 1, 2
"""

# Along the index by age. Archived agents and those of deleted organizations are passed over.
GET_OLDEST_ACTIVE = """
SELECT n.agent_id, a.name, n.organization_id, n.activated_at AS since FROM notification n
JOIN agent_state s ON s.agent_id = n.agent_id AND s.status <> 'archived'
JOIN agent a ON a.id = n.agent_id
WHERE n.activated_at <= $1 ORDER BY n.activated_at, n.agent_id LIMIT 1
"""


class PhaseSum(NamedTuple):
    """How many agents are in a phase or in all, in paused organizations or in the others."""

    paused: bool
    phase: str
    agents: int


@dataclass(frozen=True, slots=True)
class EndedNode:
    """A node that has left, or was found dead, within a day."""

    id: int
    """The number of the node."""
    name: str
    """Its name."""
    version: str
    """The version of the service that it was."""
    joined_at: datetime
    """When it joined."""
    ended_at: datetime
    """When none of its connections to the database was left."""
    interrupted_runs: int
    """How many of its runs were interrupted. Their agents started again, on any node."""


@dataclass(frozen=True, slots=True)
class OldestActive:
    """The agent with the notification that has been active for the longest time."""

    agent_id: UUID
    name: str
    organization_id: UUID
    since: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts at one moment. `attended`: how many agents each node attends, by its number."""

    postgresql: str
    schema_version: int
    paused_at: datetime | None  # None: the instance is not paused
    paused_because: str
    attended: Mapping[int, int]
    failing_webhooks: int
    ended_nodes: Sequence[EndedNode]
    phases: Sequence[PhaseSum]
    oldest_active: OldestActive | None


class ServiceFacts:
    """Reads the facts from time to time, so that the status never waits for the database."""

    def __init__(self, pool: Pool) -> None:
        self.last: Facts | None = None
        self._pool = pool

    async def refresh(self, now: datetime) -> None:
        """Read the facts into `last`."""
        [row] = await self._pool.fetch(READ)
        attended = {int(node_id): agents for node_id, agents in (row["attended"] or {}).items()}
        ended = await self._pool.fetch(LIST_ENDED, now - ENDED_FOR, MAX_ENDED)
        phases = [PhaseSum(*each) for each in await self._pool.fetch(COUNT_PHASES)]
        oldest = await self._pool.fetchrow(GET_OLDEST_ACTIVE, now)
        self.last = Facts(
            **dict(row) | {"attended": attended},
            ended_nodes=[EndedNode(**dict(each)) for each in ended],
            phases=phases,
            oldest_active=None if oldest is None else OldestActive(**dict(oldest)),
        )
