"""Spending: the sums of each UTC day, held against the caps. `usage` adds each record to its sums."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.agent_facts import Budget
from storage.model import Unpriced
from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Connection, Pool

LIST_CAPS = """
SELECT a.id AS agent_id, a.organization_id,
       coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS agent_cap,
       o.max_cost_usd_per_day AS organization_cap,
       coalesce(a.unpriced, t.unpriced, 'refuse') AS agent_unpriced, o.unpriced AS organization_unpriced
FROM agent a JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
WHERE a.id = ANY($1::uuid[])
"""

LIST_SPENT = """
SELECT owner_id, day, cost_usd
FROM unnest($1::uuid[], $2::date[]) AS item (owner_id, day) JOIN spending USING (owner_id, day)
"""


class Spending:
    """The table `spending`, read together with the caps."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reads = GroupCommit("budgets", self._get_many)

    async def close(self) -> None:
        await self._reads.close()

    async def list_budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]:
        """List the budgets that cap the agent's spending today. Concurrent reads share a statement."""
        return await self._reads.add((agent_id, now))

    async def get_spent(self, owner_id: UUID, now: datetime) -> Decimal:
        """Return what an agent or an organization has spent on the UTC day of this moment."""
        rows = await self._pool.fetch(LIST_SPENT, [owner_id], [now.astimezone(UTC).date()])
        return rows[0]["cost_usd"] if rows else Decimal(0)

    async def _get_many(self, items: Sequence[tuple[UUID, datetime]]) -> list[tuple[Budget, ...]]:
        moments = dict(items)
        caps = await self._pool.fetch(LIST_CAPS, list(moments))
        budgets = await get_budgets(self._pool, caps, moments)
        return [budgets.get(agent_id, ()) for agent_id, _ in items]


async def get_budgets(
    database: "Pool | Connection", caps: Iterable[Record], moments: Mapping[UUID, datetime]
) -> dict[UUID, tuple[Budget, ...]]:
    """Return the budgets of the agents whose spending is capped, the agent's own before its organization's.

    Each row of `caps` has the ids of the agent and its organization, and `cap` and `unpriced` of both. The
    spending is that of the UTC day of the agent's moment. No statement is sent if no row has a cap.
    """
    capped = [row for row in caps if row["agent_cap"] is not None or row["organization_cap"] is not None]
    if not capped:
        return {}
    days = {row["agent_id"]: moments[row["agent_id"]].astimezone(UTC).date() for row in capped}
    of_agents = ((row["agent_id"], days[row["agent_id"]]) for row in capped)
    of_organizations = ((row["organization_id"], days[row["agent_id"]]) for row in capped)
    owners_and_days = {*of_agents, *of_organizations}
    rows = await database.fetch(LIST_SPENT, *zip(*owners_and_days, strict=True))
    spent: dict[Any, Decimal] = {(row["owner_id"], row["day"]): row["cost_usd"] for row in rows}
    return {row["agent_id"]: tuple(_budgets(row, days[row["agent_id"]], spent)) for row in capped}


def _budgets(row: Record, day: date, spent: Mapping[tuple[UUID, date], Decimal]) -> Iterable[Budget]:
    for owner in ("agent", "organization"):
        cap_usd = row[f"{owner}_cap"]
        if cap_usd is not None:
            spent_usd = spent.get((row[f"{owner}_id"], day), Decimal(0))
            allows_unpriced = row[f"{owner}_unpriced"] == Unpriced.ALLOW
            yield Budget(owner == "organization", cap_usd, spent_usd, allows_unpriced)
