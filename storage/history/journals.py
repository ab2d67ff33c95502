"""Journals of runs: what the rows of other tables tell about a run that this process did not execute itself.

The column `run.journal` is written with the end of the run, by `storage.agents.state_updates`.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from storage.model import Outcome
from storage.postgres.json_values import decoded
from storage.postgres.pool import Pool

# Cleared notifications are looked for among those that were active at the start and the newest thousand,
# along indexes: a queue may hold a million of them.
GET_FACTS = """
SELECT (
    SELECT coalesce(sum(u.cost_usd), 0) FROM usage_record u
    WHERE u.agent_id = r.agent_id AND u.occurred_at >= r.started_at AND u.trace_id = r.id
) AS cost_usd, (
    SELECT coalesce(json_agg(to_json(t) ORDER BY t.calls DESC, t.name), '[]') FROM (
        SELECT left(regexp_replace(s.name, '^execute_tool ', ''), 100) AS name, count(*) AS calls,
               count(*) FILTER (WHERE s.error <> '') AS errors,
               coalesce((array_agg(left(s.error, 200) ORDER BY s.started_at DESC, s.id DESC)
                         FILTER (WHERE s.error <> ''))[1], '') AS last_error
        FROM span s WHERE s.trace_id = r.id AND s.span_type = 'tool'
        GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT $2
    ) t
) AS tools, ARRAY (
    SELECT n.id FROM (
        SELECT id, cleared_at FROM notification WHERE id = ANY(r.notifications)
        UNION
        (SELECT id, cleared_at FROM notification WHERE agent_id = r.agent_id
         ORDER BY created_at DESC, id DESC LIMIT $3)
    ) n
    WHERE n.cleared_at >= r.started_at ORDER BY n.cleared_at, n.id
) AS cleared
FROM run r WHERE r.id = $1
"""

# A process may write usage and spans until shortly after its sleep, which ended the run.
UPDATE = """
UPDATE run SET journal = json_build_object(
    'woken_by', journal -> 'woken_by',
    'cleared', journal -> 'cleared',
    'cleared_count', journal -> 'cleared_count',
    'uncleared', journal -> 'uncleared',
    'uncleared_count', journal -> 'uncleared_count',
    'sent', journal -> 'sent',
    'sent_count', journal -> 'sent_count',
    'tools', $2::json -> 'tools',
    'cost_usd', $2::json -> 'cost_usd')
WHERE id = $1 AND journal IS NOT NULL
"""

MAX_TOOLS = 20  # of a run: those with the most calls
MAX_SEARCHED = 1000  # notifications, of those that may have been cleared


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The calls of one tool in a run."""

    name: str
    calls: int
    errors: int
    last_error: str  # blank if no call failed


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """What a run did, beside the messages that it sent: those are found by its id."""

    tools: tuple[ToolUse, ...] = ()
    cleared: tuple[UUID, ...] = ()
    cost_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that is over, as the agent is told of it. `journal` is JSON text; None for runs without one."""

    wake_reason: str
    started_at: datetime
    ended_at: datetime
    turns: int
    outcome: Outcome
    error: str
    output: str
    journal: str | None


async def get_journal_facts(pool: Pool, run_id: UUID) -> JournalFacts:
    """Read what the run did from its spans, its usage and its agent's notifications."""
    row = await pool.fetchrow(GET_FACTS, run_id, MAX_TOOLS, MAX_SEARCHED)
    if row is None:
        return JournalFacts()
    tools = tuple(ToolUse(**tool) for tool in decoded(row["tools"]))
    return JournalFacts(tools, tuple(row["cleared"]), row["cost_usd"])


class Journals:
    """The journals of runs that processes execute: these may act for a moment after their sleep."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get_facts(self, run_id: UUID) -> JournalFacts:
        return await get_journal_facts(self._pool, run_id)

    async def update(self, run_id: UUID, entries: dict[str, Any]) -> None:
        """Replace the tools and the cost in the run's journal, if it has one."""
        await self._pool.execute(UPDATE, run_id, entries)
