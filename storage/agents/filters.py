"""Filters of agents: what a list of them shows, and lists in other orders than by age."""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import LiteralString
from uuid import UUID

from storage.model import AgentStatus, Purpose
from storage.postgres.paging import (
    CHUNK_BYTES,
    Chunk,
    OrderedConditions,
    OrganizationsPage,
    Page,
    PageConditions,
    fetch_page,
)
from storage.postgres.pool import Pool
from storage.postgres.query import Conditions, fill_in

IS_PAUSED = """(
    a.organization_id IN (SELECT id FROM organization WHERE paused)
    OR (SELECT paused_at FROM instance) IS NOT NULL)"""

# The stored phase is that of the event log, which ignores pauses of organizations.
BY_PHASE: dict[str, LiteralString] = {
    "archived": "s.phase = $",
    "stopping": f"(s.phase = $ OR s.run_id IS NOT NULL AND {IS_PAUSED})",
}
OTHER_PHASE: LiteralString = f"s.phase = $ AND NOT ({IS_PAUSED})"
PAUSED: LiteralString = f"s.status = 'sleeping' AND s.run_id IS NULL AND (s.paused OR {IS_PAUSED})"


@dataclass(frozen=True, slots=True)
class AgentFilters:
    """The agents that a list shows: those with all of `tags`, whose names are `name` or contain `search`.

    Upper and lower case are the same in names. `phase` is the one that clients see. With `ids`, only agents
    with one of these ids are shown.
    """

    organization_ids: tuple[UUID, ...]
    include_archived: bool = False
    purpose: Purpose | None = None
    tags: tuple[str, ...] = ()
    template_id: UUID | None = None
    status: AgentStatus | None = None
    parent_id: UUID | None = None
    name: str | None = None
    search: str | None = None
    phase: str | None = None
    ids: tuple[UUID, ...] = ()


def add_filters(conditions: Conditions, filters: AgentFilters) -> None:
    """Add the conditions of all filters but the organizations, on `agent` as `a` and `agent_state` as `s`.

    Archived agents are left out unless `include_archived`, `status` or `phase` asks for them.
    """
    conditions.add_optional("s.status = $", filters.status)
    if filters.status is None and filters.phase != "archived" and not filters.include_archived:
        conditions.add("s.status <> 'archived'")
    conditions.add_optional("a.purpose = $", filters.purpose)
    if filters.tags:
        conditions.add("a.tags @> $::text[]", filters.tags)
    conditions.add_optional("a.template_id = $", filters.template_id)
    conditions.add_optional("a.parent_id = $", filters.parent_id)
    conditions.add_optional("lower(a.name) = lower($)", filters.name)
    if filters.search is not None:
        conditions.add("strpos(lower(a.name), lower($)) > 0", filters.search)
    if filters.phase == "paused":
        conditions.add(PAUSED)
    elif filters.phase is not None:
        conditions.add(BY_PHASE.get(filters.phase, OTHER_PHASE), filters.phase)
    if filters.ids:
        conditions.add("a.id = ANY($::uuid[])", filters.ids)


def page_conditions(filters: AgentFilters, page: Page) -> PageConditions:
    """Return the conditions of a list that is newest first."""
    conditions = OrganizationsPage(filters.organization_ids, page, "a.created_at, a.id")
    add_filters(conditions, filters)
    return conditions


Value = str | datetime | Decimal | int


class AgentSort(StrEnum):
    """The order of a list of agents; among equals, the newest comes first."""

    NEWEST = "-created_at"
    """By the time of creation, the newest first."""
    NAME = "name"
    """By the name, ignoring case."""
    NEXT_WAKE = "next_wake"
    """By the next moment at which something is due, the earliest first; agents without one come last."""
    COST = "-cost_today"
    """By the cost of the present UTC day, the highest first."""
    UNCLEARED = "-uncleared_high"
    """By the number of active high notifications, the highest first."""


# The rows of a page: $1 are the organizations, $2 is the limit and $3 is now.
ROWS = """
SELECT c.value, a.id, a.organization_id, a.created_at, a.name, a.template_id, t.name AS template_name, a.tags,
       a.purpose, a.timezone, s.status,
       coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS max_cost_usd_per_day,
       coalesce(spending.cost_usd, 0) AS cost_today_usd, (
           SELECT coalesce(sum(u.unpriced_calls), 0)::bigint FROM usage_day u
           WHERE u.agent_id = a.id AND u.day = ($3::timestamptz AT TIME ZONE 'UTC')::date
       ) AS unpriced_calls_today
FROM (/* candidates */) c
JOIN agent a ON a.id = c.id
JOIN agent_state s ON s.agent_id = a.id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN spending ON spending.owner_id = a.id AND spending.day = ($3::timestamptz AT TIME ZONE 'UTC')::date
"""

# Read a page of each organization along its index, then take the first of all.
BY_NAME = """
SELECT a.* FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT lower(a.name) AS value, a.created_at, a.id FROM agent a JOIN agent_state s ON s.agent_id = a.id
    WHERE a.organization_id = o.id AND a.deleted_at IS NULL /* and */
    ORDER BY lower(a.name), a.created_at DESC, a.id DESC LIMIT $2
) a
ORDER BY a.value, a.created_at DESC, a.id DESC LIMIT $2
"""

BY_NEXT_WAKE = """
SELECT a.* FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT s.next_due_at AS value, a.created_at, a.id FROM agent_state s JOIN agent a ON a.id = s.agent_id
    WHERE s.organization_id = o.id AND a.deleted_at IS NULL AND s.next_due_at IS NOT NULL /* and */
    ORDER BY s.next_due_at, a.created_at DESC, a.id DESC LIMIT $2
) a
ORDER BY a.value, a.created_at DESC, a.id DESC LIMIT $2
"""

BY_COST = """
SELECT spent.cost_usd AS value, a.created_at, a.id
FROM spending spent
JOIN agent a ON a.id = spent.owner_id
JOIN agent_state s ON s.agent_id = a.id
WHERE spent.day = ($3::timestamptz AT TIME ZONE 'UTC')::date
  AND a.organization_id = ANY($1::uuid[]) AND a.deleted_at IS NULL /* and */
ORDER BY spent.cost_usd DESC, a.created_at DESC, a.id DESC LIMIT $2
"""

BY_UNCLEARED = """
SELECT n.value, a.created_at, a.id
FROM (
    SELECT agent_id, count(*) AS value FROM notification WHERE activated_at <= $3 GROUP BY agent_id
) n
JOIN agent a ON a.id = n.agent_id
JOIN agent_state s ON s.agent_id = a.id
WHERE a.organization_id = ANY($1::uuid[]) AND a.deleted_at IS NULL /* and */
ORDER BY n.value DESC, a.created_at DESC, a.id DESC LIMIT $2
"""

# The agents without a value, or all.
BY_CREATION = """
SELECT a.* FROM unnest($1::uuid[]) AS o (id)
CROSS JOIN LATERAL (
    SELECT NULL AS value, a.created_at, a.id FROM agent a JOIN agent_state s ON s.agent_id = a.id
    WHERE a.organization_id = o.id AND a.deleted_at IS NULL /* and */
    ORDER BY a.created_at DESC, a.id DESC LIMIT $2
) a
ORDER BY a.created_at DESC, a.id DESC LIMIT $2
"""

NEWEST = fill_in(ROWS, "/* candidates */", BY_CREATION)

# The limit ends the count of a very large number.
COUNT = """
SELECT count(*) FROM (
    SELECT FROM agent a JOIN agent_state s ON s.agent_id = a.id
    WHERE a.organization_id = ANY($1::uuid[]) AND a.deleted_at IS NULL /* and */
    LIMIT $2
) a
"""


@dataclass(frozen=True, slots=True)
class Order:
    """The statement of the agents that have a value, its order, and the condition that leads past a position.

    `without_value` is the condition on all other agents, which may take the time; None if there are none.
    """

    statement: LiteralString
    by_value: LiteralString
    after: LiteralString
    without_value: LiteralString | None


# OFFSET 0 keeps the planner from joining all agents with all that have a value, to find the few of a page.
ORDERS = {
    AgentSort.NAME: Order(
        fill_in(ROWS, "/* candidates */", BY_NAME),
        "p.value",
        "lower(a.name) >= $ AND (lower(a.name) > $ OR (a.created_at, a.id) < ($, $))",
        None,
    ),
    AgentSort.NEXT_WAKE: Order(
        fill_in(ROWS, "/* candidates */", BY_NEXT_WAKE),
        "p.value",
        "s.next_due_at >= $ AND (s.next_due_at > $ OR (a.created_at, a.id) < ($, $))",
        "s.next_due_at IS NULL",
    ),
    AgentSort.COST: Order(
        fill_in(ROWS, "/* candidates */", BY_COST),
        "p.value DESC",
        "spent.cost_usd <= $ AND (spent.cost_usd < $ OR (a.created_at, a.id) < ($, $))",
        "NOT EXISTS (SELECT FROM spending WHERE owner_id = a.id"
        " AND day = ($::timestamptz AT TIME ZONE 'UTC')::date OFFSET 0)",
    ),
    AgentSort.UNCLEARED: Order(
        fill_in(ROWS, "/* candidates */", BY_UNCLEARED),
        "p.value DESC",
        "n.value <= $ AND (n.value < $ OR (a.created_at, a.id) < ($, $))",
        "NOT EXISTS (SELECT FROM notification WHERE agent_id = a.id AND activated_at <= $ OFFSET 0)",
    ),
}
NEWEST_FIRST = "p.created_at DESC, p.id DESC"


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a row in a sorted list: its value, None if it has none, its creation and its id."""

    value: Value | None
    created_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class SortedPage:
    """At most `limit` agents after a position, as many as fit `max_bytes` but at least one."""

    now: datetime
    after: Position | None = None
    limit: int = 100
    max_bytes: int = CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent in a list for people. `value` is the one that the list is sorted by."""

    value: Value | None
    id: UUID
    organization_id: UUID
    created_at: datetime
    name: str
    template_id: UUID | None
    template_name: str | None
    tags: tuple[str, ...]
    purpose: Purpose
    timezone: str
    status: AgentStatus
    max_cost_usd_per_day: Decimal | None
    cost_today_usd: Decimal
    unpriced_calls_today: int

    @property
    def position(self) -> Position:
        return Position(self.value, self.created_at, self.id)


class SortedAgents:
    """Lists of agents in the orders of `AgentSort`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_page(self, filters: AgentFilters, sort: AgentSort, page: SortedPage) -> Chunk[AgentRow]:
        """List one page of the agents: those with a value of the order, then the others, newest first."""
        order, after, chunk = ORDERS.get(sort), page.after, Chunk[AgentRow]([], is_cut=False)
        if order is not None and (after is None or after.value is not None):
            chunk = await self._list_valued(filters, order, page)
            after = None
            if order.without_value is None or chunk.is_cut or len(chunk) == page.limit:
                return chunk
        others = replace(page, after=after, limit=page.limit - len(chunk))
        rest = await self._list_newest(filters, None if order is None else order.without_value, others)
        return Chunk([*chunk, *rest], is_cut=rest.is_cut)

    async def count(self, filters: AgentFilters, limit: int) -> int:
        """Count the agents that the list shows, up to `limit`."""
        conditions = Conditions(filters.organization_ids, limit)
        add_filters(conditions, filters)
        count: int = await self._pool.fetchval(conditions.into(COUNT), *conditions.parameters)
        return count

    async def _list_valued(self, filters: AgentFilters, order: Order, page: SortedPage) -> Chunk[AgentRow]:
        by = f"{order.by_value}, {NEWEST_FIRST}"
        conditions = _conditions(filters, page, by)
        if (after := page.after) is not None:
            conditions.add(order.after, after.value, after.value, after.created_at, after.id)
        return await fetch_page(self._pool, AgentRow, order.statement, conditions)

    async def _list_newest(
        self, filters: AgentFilters, without_value: LiteralString | None, page: SortedPage
    ) -> Chunk[AgentRow]:
        conditions = _conditions(filters, page, NEWEST_FIRST)
        if without_value is not None:
            conditions.add(without_value, *([page.now] * without_value.count("$")))
        if (after := page.after) is not None:
            conditions.add("(a.created_at, a.id) < ($, $)", after.created_at, after.id)
        return await fetch_page(self._pool, AgentRow, NEWEST, conditions)


def _conditions(filters: AgentFilters, page: SortedPage, order: str) -> OrderedConditions:
    conditions = OrderedConditions(
        filters.organization_ids, page.limit, page.now, max_bytes=page.max_bytes, order=order
    )
    add_filters(conditions, filters)
    return conditions
