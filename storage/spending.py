"""What may be spent in a day, and what was; the sums are kept by `usage`, with every record."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from asyncpg import Record

from storage.batching import Batch
from storage.model import Budget
from storage.pool import Pool

LOOK_UP = """
SELECT a.id, coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS agent_cap,
       o.max_cost_usd_per_day AS organization_cap,
       of_agent.cost_usd AS agent_spent, of_organization.cost_usd AS organization_spent
FROM unnest($1::uuid[], $2::timestamptz[]) AS i (agent_id, now)
JOIN agent a ON a.id = i.agent_id
JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
LEFT JOIN spending of_agent
    ON of_agent.owner_id = a.id AND of_agent.day = (i.now AT TIME ZONE 'UTC')::date
LEFT JOIN spending of_organization
    ON of_organization.owner_id = o.id AND of_organization.day = (i.now AT TIME ZONE 'UTC')::date
"""

NOTHING = Decimal(0)


class Spending:
    """The table `spending`, held against the caps."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reads = Batch("budgets", self._look_up_many)

    async def close(self) -> None:
        await self._reads.close()

    async def budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]:
        """What caps the agent's spending today, if anything does. Concurrent reads share a statement."""
        return await self._reads.add((agent_id, now))

    async def _look_up_many(self, items: Sequence[tuple[UUID, datetime]]) -> list[tuple[Budget, ...]]:
        moments = dict(items)
        rows = await self._pool.fetch(LOOK_UP, list(moments), list(moments.values()))
        found = {row["id"]: budgets_of(row) for row in rows}
        return [found.get(agent_id, ()) for agent_id, _ in items]


def budgets_of(row: Record) -> tuple[Budget, ...]:
    """From a row with the two caps and what was spent of each: the agent's budget first."""
    budgets: tuple[Budget, ...] = ()
    if row["agent_cap"] is not None:
        budgets = (Budget(False, row["agent_cap"], row["agent_spent"] or NOTHING),)
    if row["organization_cap"] is not None:
        budgets = (*budgets, Budget(True, row["organization_cap"], row["organization_spent"] or NOTHING))
    return budgets
