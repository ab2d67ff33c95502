"""Runs: one row for each, written in the same statement as the state of its agent."""

from uuid import UUID

from storage.model import Run
from storage.postgres.page_conditions import PageConditions, fetch_page
from storage.postgres.paging import Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.rows import fetch_one

GET = """
SELECT r.*, cardinality(r.notifications) + r.notifications_left_out AS notification_count
FROM run r JOIN agent a ON a.id = r.agent_id AND a.deleted_at IS NULL WHERE r.id = $1
"""

PAGE = """
SELECT r.*, cardinality(r.notifications) + r.notifications_left_out AS notification_count
FROM run r JOIN agent a ON a.id = r.agent_id AND a.deleted_at IS NULL
WHERE r.agent_id = $1 /* and */
ORDER BY r.started_at DESC, r.id DESC LIMIT $2 OFFSET $3
"""


class Runs:
    """The table `run`, read only: its rows are written by `storage.agents.state_updates`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, run_id: UUID) -> Run | None:
        return await fetch_one(self._pool, Run, GET, run_id)

    async def list_page(self, agent_id: UUID, page: Page) -> Chunk[Run]:
        """List one page of the agent's runs, last started first."""
        conditions = PageConditions(agent_id, page, "r.started_at, r.id")
        return await fetch_page(self._pool, Run, PAGE, conditions)
