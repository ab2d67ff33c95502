"""Runs: one row for each, written in the same statement as the state of its agent; and their journals.

A journal is written with the end of its run, by `storage.agents.state_updates`. Here is what the rows of
other tables tell about a run that this process did not execute itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, LiteralString
from uuid import UUID

from asyncpg import Record

from storage.agent_facts import WakeLimits
from storage.model import Outcome, Run
from storage.postgres.json_values import decoded
from storage.postgres.paging import Chunk, OrganizationsPage, Page, PageConditions, fetch_page, fetch_rows
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import ALWAYS, Period
from storage.postgres.shared_reads import SharedReads
from storage.postgres.statement import from_row

GET = """
SELECT r.*, cardinality(r.notifications) + r.notifications_left_out AS notification_count
FROM run r
WHERE r.id = ANY((SELECT $1::uuid[])::uuid[])
  AND (SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = r.agent_id) /* and */
"""

PAGE_OF_AGENT = """
SELECT r.*, cardinality(r.notifications) + r.notifications_left_out AS notification_count
FROM run r JOIN agent a ON a.id = r.agent_id AND a.deleted_at IS NULL
WHERE r.agent_id = $1 /* and */
ORDER BY r.started_at DESC, r.id DESC LIMIT $2 OFFSET $3
"""

# Read a page of each organization along its index, then take the newest of all. The agent is checked by a
# subquery: for a join the planner expects few rows, and would sort all runs for each page.
PAGE = """
SELECT r.*, cardinality(r.notifications) + r.notifications_left_out AS notification_count
FROM unnest(/* organizations */) AS o (id)
CROSS JOIN LATERAL (
    SELECT r.* FROM run r
    WHERE r.organization_id = o.id
      AND (SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = r.agent_id) /* and */
    ORDER BY r.started_at DESC, r.id DESC LIMIT /* rows */
) r
ORDER BY r.started_at DESC, r.id DESC LIMIT $2 OFFSET $3
"""

ORDER = "r.started_at, r.id"


@dataclass(frozen=True, slots=True)
class RunFilters:
    """The runs that a list shows: those of one agent, or of all agents of the organizations.

    The runs started for any of `wake_reasons`; for any reason if there are none.
    """

    organization_ids: tuple[UUID, ...] = ()
    agent_id: UUID | None = None
    outcome: Outcome | None = None
    wake_reasons: tuple[str, ...] = ()
    is_active: bool | None = None
    needs_person: bool | None = None
    has_failed_calls: bool | None = None
    started: Period = ALWAYS


class Runs:
    """The table `run`, read only: its rows are written by `storage.agents.state_updates`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.get = SharedReads(
            "runs",
            pool,
            GET,
            partial(from_row, Run),
            texts=("r.error", "r.stop_reason", "r.output"),
            documents=("r.notifications", "r.journal", "r.prompt"),
        )

    async def with_starts(self, agent_id: UUID, limits: WakeLimits, now: datetime) -> WakeLimits:
        """Return the limits with the starts of the agent that fill them."""
        return (await with_starts(self._pool, {agent_id: limits}, {agent_id: now}))[agent_id]

    async def list_page(self, filters: RunFilters, page: Page) -> Chunk[Run]:
        """List one page of the runs, last started first."""
        statement, conditions = _listing(filters, page)
        return await fetch_page(self._pool, Run, statement, conditions)

    async def list_rows(self, filters: RunFilters, page: Page) -> Chunk[Record]:
        """List the same page as rows with the columns of `Run`."""
        statement, conditions = _listing(filters, page)
        return await fetch_rows(self._pool, Run, statement, conditions)


def _listing(filters: RunFilters, page: Page) -> tuple[LiteralString, PageConditions]:
    """Return the statement that lists the page, with its conditions."""
    if filters.agent_id is not None:
        conditions, statement = PageConditions(filters.agent_id, page, ORDER), PAGE_OF_AGENT
    else:
        conditions, statement = OrganizationsPage(filters.organization_ids, page, ORDER), PAGE
    conditions.add_optional("r.outcome = $", filters.outcome)
    if len(filters.wake_reasons) == 1:
        conditions.add("r.wake_reason = $", *filters.wake_reasons)
    elif filters.wake_reasons:
        conditions.add("r.wake_reason = ANY($::text[])", filters.wake_reasons)
    if filters.is_active is not None:
        # Not by `ended_at`, which the indexes do not hold; a run has an outcome once it has ended.
        conditions.add("r.outcome IS NULL" if filters.is_active else "r.outcome IS NOT NULL")
    if filters.needs_person is not None:
        conditions.add("r.needs_person" if filters.needs_person else "NOT r.needs_person")
    if filters.has_failed_calls is not None:
        conditions.add("r.failed_calls > 0" if filters.has_failed_calls else "r.failed_calls = 0")
    conditions.add_period("r.started_at", filters.started)
    return statement, conditions


# Cleared notifications are looked for among those that were active at the start and the newest thousand,
# along indexes: a queue may hold a million of them.
GET_FACTS = """
SELECT (
    SELECT coalesce(sum(u.cost_usd), 0) FROM usage_record u
    WHERE u.agent_id = r.agent_id AND u.occurred_at >= r.started_at AND u.trace_id = r.id
) AS cost_usd, (
    SELECT count(*) FILTER (WHERE NOT u.priced) FROM usage_record u
    WHERE u.agent_id = r.agent_id AND u.occurred_at >= r.started_at AND u.trace_id = r.id
) AS unpriced_calls, (
    SELECT coalesce(json_agg(to_json(t) ORDER BY t.calls DESC, t.name), '[]') FROM (
        SELECT left(regexp_replace(s.name, '^execute_tool ', ''), 100) AS name, count(*) AS calls,
               count(*) FILTER (WHERE s.error <> '') AS errors,
               coalesce((array_agg(left(s.error, 200) ORDER BY s.started_at DESC, s.id DESC)
                         FILTER (WHERE s.error <> ''))[1], '') AS last_error,
               coalesce(max(s.started_at) FILTER (WHERE s.error <> '') > greatest(
                   max(s.started_at) FILTER (WHERE s.error = ''),
                   max(max(s.started_at) FILTER (WHERE s.error = '' AND s.name <> ALL($4::text[]))) OVER (),
                   '-infinity'), false) AS unsolved
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
UPDATE_JOURNAL = """
UPDATE run SET journal = json_build_object(
    'woken_by', journal -> 'woken_by',
    'cleared', journal -> 'cleared',
    'cleared_count', journal -> 'cleared_count',
    'uncleared', journal -> 'uncleared',
    'uncleared_count', journal -> 'uncleared_count',
    'sent', journal -> 'sent',
    'sent_count', journal -> 'sent_count',
    'failed_count', journal -> 'failed_count',
    'unanswered', journal -> 'unanswered',
    'tools', $2::json -> 'tools',
    'cost_usd', $2::json -> 'cost_usd',
    'unpriced_calls', $2::json -> 'unpriced_calls'),
    failed_calls = ($2::json ->> 'failed_calls')::integer,
    needs_person = needs_person OR $2::json ->> 'trouble' = 'unsolved'
WHERE id = $1 AND journal IS NOT NULL
"""

# The start that fills a limit, if there were as many. One up to a second ahead is by a clock that differs,
# one further ahead from before the clock was set back. A day of any time zone begins in the last two days.
LIST_FILLING_STARTS = """
SELECT of_hour.started_at AS fills_hour_at, of_day.started_at AS fills_day_at
FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::integer[]) WITH ORDINALITY
    AS i (agent_id, now, per_hour, per_day, ordinal)
LEFT JOIN LATERAL (
    SELECT started_at FROM run
    WHERE agent_id = i.agent_id AND started_at > i.now - interval '1 hour'
      AND started_at <= i.now + interval '1 second'
    ORDER BY started_at DESC LIMIT 1 OFFSET i.per_hour - 1
) of_hour ON i.per_hour IS NOT NULL
LEFT JOIN LATERAL (
    SELECT started_at FROM run
    WHERE agent_id = i.agent_id AND started_at > i.now - interval '2 days'
      AND started_at <= i.now + interval '1 second'
    ORDER BY started_at DESC LIMIT 1 OFFSET i.per_day - 1
) of_day ON i.per_day IS NOT NULL
ORDER BY i.ordinal
"""

MAX_TOOLS = 20  # of a run: those with the most calls
MAX_SEARCHED = 1000  # notifications, of those that may have been cleared

# The tools that change nothing for anybody but the agent itself: a call of one solves no failure of another.
QUIET_TOOLS = frozenset(
    {
        "list_notifications",
        "clear_notification",
        "open_sms_attachment",
        "list_messages",
        "get_message",
        "list_contacts",
        "get_contact",
        "list_documents",
        "search_documents",
        "read_document",
        "list_projects",
        "list_runs",
        "get_time",
        "sleep",
    }
)
QUIET_SPANS = [f"execute_tool {name}" for name in sorted(QUIET_TOOLS)]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The calls of one tool in a run."""

    name: str
    calls: int
    errors: int
    last_error: str  # blank if no call failed
    unsolved: bool = False  # its last call failed, and nothing was changed in a later turn


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """What a run did, beside the messages that it sent: those are found by its id."""

    tools: tuple[ToolUse, ...] = ()
    cleared: tuple[UUID, ...] = ()
    cost_usd: Decimal = Decimal(0)
    unpriced_calls: int = 0  # of models, whose cost is not known
    unanswered: tuple[UUID, ...] = ()  # contacts whose messages it cleared without an answer


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
    row = await pool.fetchrow(GET_FACTS, run_id, MAX_TOOLS, MAX_SEARCHED, QUIET_SPANS)
    if row is None:
        return JournalFacts()
    tools = tuple(ToolUse(**tool) for tool in decoded(row["tools"]))
    return JournalFacts(tools, tuple(row["cleared"]), row["cost_usd"], row["unpriced_calls"])


async def with_starts(
    database: "Pool | Connection", limits: Mapping[UUID, WakeLimits], moments: Mapping[UUID, datetime]
) -> dict[UUID, WakeLimits]:
    """Return the limits of each agent with the starts that fill them by its moment."""
    items = (
        (agent_id, moments[agent_id], one.max_wakes_per_hour, one.max_wakes_per_day)
        for agent_id, one in limits.items()
    )
    starts = await database.fetch(LIST_FILLING_STARTS, *zip(*items, strict=True))
    return {
        agent_id: replace(one, **found) for (agent_id, one), found in zip(limits.items(), starts, strict=True)
    }


class Journals:
    """The journals of runs that processes execute: these may act for a moment after their sleep."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get_facts(self, run_id: UUID) -> JournalFacts:
        return await get_journal_facts(self._pool, run_id)

    async def update(self, run_id: UUID, entries: dict[str, Any]) -> None:
        """Replace the tools and the cost in the run's journal, if it has one."""
        await self._pool.execute(UPDATE_JOURNAL, run_id, entries)
