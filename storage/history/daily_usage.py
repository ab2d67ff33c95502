"""Daily usage: the sums over model calls by UTC day and model, and the agents that cost the most."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from asyncpg import Record

from storage.history.usage import DAY, HOUR, ModelUsage, divide
from storage.postgres.pool import Pool
from storage.postgres.query import Conditions, fill_in
from storage.postgres.rows import fetch_all, from_row

# The models beyond the most expensive ones have no rank; their calls of a day are one row. OFFSET 0 makes the
# planner read the records of each edge along an index.
SUM_BY_DAY = """
WITH daily AS MATERIALIZED (
    SELECT day, model, sum(calls) AS calls, sum(unpriced_calls) AS unpriced_calls,
           sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
           sum(cached_tokens) AS cached_tokens, sum(cost_usd) AS cost_usd
    FROM (
        /* sums */
        UNION ALL
        SELECT (occurred_at AT TIME ZONE 'UTC')::date, model, 1, (NOT priced)::integer,
               input_tokens, output_tokens, cached_tokens, cost_usd
        FROM (VALUES ($1::timestamptz, $2::timestamptz), ($3, $4)) AS edge (start_at, end_at)
        CROSS JOIN LATERAL (
            SELECT * FROM usage_record
            WHERE occurred_at >= start_at AND occurred_at < end_at /* and */ OFFSET 0
        ) r
    ) part
    GROUP BY 1, 2
), ranked AS (
    SELECT model, count(*) OVER () AS model_count,
           row_number() OVER (ORDER BY sum(cost_usd) DESC, sum(calls) DESC, model) AS rank
    FROM daily GROUP BY model
), named AS (
    SELECT model, model_count, rank FROM ranked WHERE rank <= $5
)
SELECT daily.day, coalesce(named.model, '') AS model, named.rank,
       (SELECT max(model_count) FROM named) AS model_count,
       sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
       sum(cached_tokens)::bigint AS cached_tokens, sum(cost_usd) AS cost_usd, sum(calls)::bigint AS calls,
       sum(unpriced_calls) = 0 AS priced
FROM daily LEFT JOIN named USING (model)
GROUP BY daily.day, named.model, named.rank ORDER BY daily.day, named.rank
"""

# Of whole organizations. $2 and $3 are the limits of the hours that are wholly in the period.
HOURS = """
SELECT (hour AT TIME ZONE 'UTC')::date AS day, model, calls, unpriced_calls,
       input_tokens, output_tokens, cached_tokens, cost_usd
FROM usage_hour WHERE hour >= $2 AND hour < $3 /* and */
"""

# Of single agents. Here $2 and $3 are the limits of days.
DAYS = """
SELECT day, model, calls, unpriced_calls, input_tokens, output_tokens, cached_tokens, cost_usd
FROM usage_day
WHERE day >= ($2::timestamptz AT TIME ZONE 'UTC')::date AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date
    /* and */
"""

LIST_TOP_AGENTS = """
WITH top AS (
    SELECT agent_id, sum(cost_usd) AS cost_usd, sum(calls)::bigint AS calls
    FROM (
        SELECT agent_id, cost_usd, calls FROM usage_day
        WHERE day >= ($2::timestamptz AT TIME ZONE 'UTC')::date
          AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date /* and */
        UNION ALL
        SELECT agent_id, cost_usd, 1
        FROM (VALUES ($1::timestamptz, $2::timestamptz), ($3, $4)) AS edge (start_at, end_at)
        CROSS JOIN LATERAL (
            SELECT * FROM usage_record
            WHERE occurred_at >= start_at AND occurred_at < end_at /* and */ OFFSET 0
        ) r
    ) part
    GROUP BY 1 ORDER BY 2 DESC, 3 DESC, 1 LIMIT $5
)
SELECT agent_id, coalesce(agent.name, '') AS name, cost_usd, calls
FROM top LEFT JOIN agent ON agent.id = top.agent_id
ORDER BY cost_usd DESC, calls DESC, agent_id
"""

OF_ORGANIZATIONS = fill_in(SUM_BY_DAY, "/* sums */", HOURS)
OF_AGENTS = fill_in(SUM_BY_DAY, "/* sums */", DAYS)

MAX_NAMED_MODELS = 10


@dataclass(frozen=True, slots=True)
class UsageScope:
    """Whose calls are summed up, from `start` to before `end`; a template stands for its agents of today."""

    organization_ids: Collection[UUID]
    start: datetime
    end: datetime
    agent_id: UUID | None = None
    template_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class DayUsage:
    """The sums of one UTC day by the position of the model in `DailyUsage.models`; None: of the others."""

    day: date
    by_model: Mapping[int | None, ModelUsage]


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """The days that have calls, the earliest first, and the most expensive of `model_count` models."""

    days: tuple[DayUsage, ...]
    models: tuple[str, ...]
    model_count: int


@dataclass(frozen=True, slots=True)
class AgentCost:
    """What one agent cost in a period; the name is "" if the agent is not known any more."""

    agent_id: UUID
    name: str
    cost_usd: Decimal
    calls: int


class UsageByDay:
    """The tables `usage_hour`, `usage_day` and `usage_record`, read for many agents together."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def sum_by_day(self, scope: UsageScope) -> DailyUsage:
        """Sum up usage by UTC day, for up to MAX_NAMED_MODELS models and all others together."""
        is_of_organizations = scope.agent_id is None and scope.template_id is None
        statement, unit = (OF_ORGANIZATIONS, HOUR) if is_of_organizations else (OF_AGENTS, DAY)
        conditions = _within(scope, unit, MAX_NAMED_MODELS)
        rows = await self._pool.fetch(conditions.into(statement), *conditions.parameters)
        names: dict[int, str] = {row["rank"]: row["model"] for row in rows if row["rank"] is not None}
        days = tuple(
            DayUsage(day, {_position(row): from_row(ModelUsage, row) for row in of_day})
            for day, of_day in groupby(rows, key=itemgetter("day"))
        )
        model_count = rows[0]["model_count"] if rows else 0
        return DailyUsage(days, tuple(names[rank] for rank in sorted(names)), model_count)

    async def list_top_agents(self, scope: UsageScope, limit: int) -> list[AgentCost]:
        """List the agents that cost the most, the most expensive first."""
        conditions = _within(scope, DAY, limit)
        return await fetch_all(
            self._pool, AgentCost, conditions.into(LIST_TOP_AGENTS), *conditions.parameters
        )


def _within(scope: UsageScope, unit: timedelta, limit: int) -> Conditions:
    """Return the conditions of this scope. The period is divided at the limits of hours or days."""
    conditions = Conditions(*divide(scope.start, scope.end, unit), limit)
    conditions.add("organization_id = ANY($::uuid[])", list(scope.organization_ids))
    conditions.add_optional("agent_id = $", scope.agent_id)
    conditions.add_optional("agent_id IN (SELECT id FROM agent WHERE template_id = $)", scope.template_id)
    return conditions


def _position(row: Record) -> int | None:
    return None if row["rank"] is None else row["rank"] - 1
