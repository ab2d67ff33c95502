"""What may be spent in a day, and what was; the sums are kept by `usage`, with every record."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from asyncpg import Record

from storage.model import Budget
from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Pool

LIST_CAPS = """
SELECT a.id AS agent_id, a.organization_id,
       coalesce(a.max_cost_usd_per_day, t.max_cost_usd_per_day) AS agent_cap,
       o.max_cost_usd_per_day AS organization_cap
FROM agent a JOIN organization o ON o.id = a.organization_id
LEFT JOIN template t ON t.id = a.template_id
WHERE a.id = ANY($1::uuid[])
"""

LIST_SPENT = """
SELECT owner_id, day, cost_usd
FROM unnest($1::uuid[], $2::date[]) AS asked (owner_id, day) JOIN spending USING (owner_id, day)
"""

Fetch = Callable[..., Awaitable[Sequence[Record]]]


class Spending:
    """The table `spending`, held against the caps."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reads = GroupCommit("budgets", self._look_up_many)

    async def close(self) -> None:
        await self._reads.close()

    async def budgets(self, agent_id: UUID, now: datetime) -> tuple[Budget, ...]:
        """What caps the agent's spending today, if anything does. Concurrent reads share a statement."""
        return await self._reads.add((agent_id, now))

    async def _look_up_many(self, items: Sequence[tuple[UUID, datetime]]) -> list[tuple[Budget, ...]]:
        moments = dict(items)
        caps = await self._pool.fetch(LIST_CAPS, list(moments))
        found = await budgets_of(caps, moments, self._pool.fetch)
        return [found.get(agent_id, ()) for agent_id, _ in items]


async def budgets_of(
    agents: Iterable[Record], moments: Mapping[UUID, datetime], fetch: Fetch
) -> dict[UUID, tuple[Budget, ...]]:
    """The budgets of those whose spending is capped, each on the day of its moment; the agent's own first.

    `agents`: rows with the two caps, `agent_cap` and `organization_cap`. Nothing is asked if there are none.
    """
    capped = [row for row in agents if row["agent_cap"] is not None or row["organization_cap"] is not None]
    if not capped:
        return {}
    days = {row["agent_id"]: moments[row["agent_id"]].astimezone(UTC).date() for row in capped}
    of_agents = ((row["agent_id"], days[row["agent_id"]]) for row in capped)
    of_organizations = ((row["organization_id"], days[row["agent_id"]]) for row in capped)
    asked = {*of_agents, *of_organizations}
    rows = await fetch(LIST_SPENT, *zip(*asked, strict=True))
    spent: dict[Any, Decimal] = {(row["owner_id"], row["day"]): row["cost_usd"] for row in rows}
    return {row["agent_id"]: tuple(_budgets(row, days[row["agent_id"]], spent)) for row in capped}


def _budgets(row: Record, day: date, spent: Mapping[tuple[UUID, date], Decimal]) -> Iterable[Budget]:
    if row["agent_cap"] is not None:
        yield Budget(False, row["agent_cap"], spent.get((row["agent_id"], day), Decimal(0)))
    if row["organization_cap"] is not None:
        yield Budget(True, row["organization_cap"], spent.get((row["organization_id"], day), Decimal(0)))
