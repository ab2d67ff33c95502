"""Runs: one row for each, written in the same statement as the state of its agent."""

from dataclasses import dataclass
from functools import partial
from typing import LiteralString
from uuid import UUID

from asyncpg import Record

from storage.model import Outcome, Run
from storage.postgres.page_conditions import OrganizationsPage, PageConditions, fetch_page, fetch_rows
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import ALWAYS, Period
from storage.postgres.rows import from_row
from storage.postgres.shared_reads import SharedReads

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
            documents=("r.notifications", "r.journal"),
        )

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
    conditions.add_period("r.started_at", filters.started)
    return statement, conditions
