"""Usage: the tokens and the cost of each model call, their sums, and the spending that is held against caps.

The records outlive their agents.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from asyncpg import Record

from storage.agent_facts import Budget
from storage.delivery.receipts import RECEIPT
from storage.model import Receipt, Unpriced
from storage.postgres.pool import Connection, Pool
from storage.postgres.query import Conditions, fill_in
from storage.postgres.statement import Statement, columns_of, fetch_all, from_row, values_of

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
        self._reads = pool.group_commit("budgets", self._get_many)

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


HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Parts(NamedTuple):
    """A period in parts: the sums from `sums_start` to before `sums_end`, and the records around them."""

    start: datetime
    sums_start: datetime
    sums_end: datetime
    end: datetime


def divide(start: datetime, end: datetime, unit: timedelta) -> Parts:
    """Divide the period from `start` to before `end` at the limits of whole UTC hours or days.

    If it contains no whole one, there are no sums, and all records are before them.
    """
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    sums_end = _floor(end, unit)
    if sums_end <= start:
        return Parts(start, end, end, end)
    floor = _floor(start, unit)
    return Parts(start, floor if floor == start else floor + unit, sums_end, end)


def _floor(moment: datetime, unit: timedelta) -> datetime:
    hour = moment.hour if unit == HOUR else 0
    return moment.replace(hour=hour, minute=0, second=0, microsecond=0)


# A period in parts, from $1 to before $4. Between $2 and $3, the limits of its whole hours or days, are sums:
# those by hour are of whole organizations, those by day of single agents. Around them are the records; OFFSET
# 0 makes the planner read those of each edge along an index.
HOURS = """
    SELECT NULL::uuid AS agent_id, (hour AT TIME ZONE 'UTC')::date AS day, model, calls, unpriced_calls,
           input_tokens, output_tokens, cached_tokens, cost_usd
    FROM usage_hour WHERE hour >= $2 AND hour < $3 /* and */
"""
DAYS = """
    SELECT agent_id, day, model, calls, unpriced_calls, input_tokens, output_tokens, cached_tokens, cost_usd
    FROM usage_day
    WHERE day >= ($2::timestamptz AT TIME ZONE 'UTC')::date
      AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date /* and */
"""
EDGES = """
    UNION ALL
    SELECT agent_id, (occurred_at AT TIME ZONE 'UTC')::date, model, 1, (NOT priced)::integer,
           input_tokens, output_tokens, cached_tokens, cost_usd
    FROM (VALUES ($1::timestamptz, $2::timestamptz), ($3, $4)) AS edge (start_at, end_at)
    CROSS JOIN LATERAL (
        SELECT * FROM usage_record
        WHERE occurred_at >= start_at AND occurred_at < end_at /* and */ OFFSET 0
    ) r
"""

# The sum of all comes first, then those of single models, the most expensive first.
SUM_BY_MODEL = """
SELECT coalesce(model, '') AS model, count(*) OVER () - 1 AS model_count,
       coalesce(sum(input_tokens), 0)::bigint AS input_tokens,
       coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
       coalesce(sum(cached_tokens), 0)::bigint AS cached_tokens,
       coalesce(sum(cost_usd), 0) AS cost_usd, coalesce(sum(calls), 0)::bigint AS calls,
       coalesce(sum(unpriced_calls), 0) = 0 AS priced
FROM (/* parts */) part
GROUP BY GROUPING SETS ((), (model))
ORDER BY grouping(model) DESC, sum(cost_usd) DESC, sum(calls) DESC, model LIMIT $5 + 1
"""
OF_ONE_AGENT = fill_in(SUM_BY_MODEL, "/* parts */", DAYS + EDGES)

MAX_MODELS = 500  # of an agent: whose sums are listed one by one


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One model call. `input_tokens` include `cached_tokens`; unless `priced`, the cost is unknown."""

    id: UUID
    organization_id: UUID
    agent_id: UUID
    trace_id: UUID | None
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: Decimal
    priced: bool
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The sums over the calls of one model; unless all are `priced`, the cost of some is unknown."""

    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: Decimal
    calls: int
    priced: bool


@dataclass(frozen=True, slots=True)
class UsageSums:
    """The sums over all calls, and over those of each of the most expensive of `model_count` models."""

    total: ModelUsage
    models: tuple[ModelUsage, ...]
    model_count: int


_Item = tuple[UsageRecord, Receipt | None, Decimal | None]  # the last is the agent's cap, if it counts


RECORD = columns_of(UsageRecord)

# A writer that did not learn the outcome may send a record again. It counts once, in the sums as well.
# Triggers keep the sums by hour and day. Those of spending are kept here: a record with a cap counts in full
# against its agent, but against the organization only for what this cap of the agent leaves after everything
# else that the agent spent on the day.
INSERT = Statement(
    """
WITH item AS (
    SELECT * FROM json_to_recordset(:items::json) AS i (
        id uuid, organization_id uuid, agent_id uuid, trace_id uuid, model text, input_tokens bigint,
        output_tokens bigint, cached_tokens bigint, cost_usd numeric, priced boolean, occurred_at timestamptz,
        cap numeric, receipt json)
), inserted_receipt AS (
    INSERT INTO receipt (
        credential, method, path, key, body_hash, status, answer, created_at, organization_id)
    SELECT r.credential, r.method, r.path, r.key, r.body_hash, r.status, r.answer, r.created_at,
           item.organization_id
    FROM item CROSS JOIN json_to_record(item.receipt) AS r (
        credential uuid, method text, path text, key text, body_hash bytea,
        status smallint, answer bytea, created_at timestamptz)
    WHERE item.receipt IS NOT NULL
), inserted_usage AS (
    INSERT INTO usage_record (
        id, organization_id, agent_id, trace_id, model, input_tokens, output_tokens, cached_tokens,
        cost_usd, priced, occurred_at)
    SELECT id, organization_id, agent_id, trace_id, model, input_tokens, output_tokens, cached_tokens,
           cost_usd, priced, occurred_at
    FROM item
    ON CONFLICT (id) DO NOTHING
    RETURNING id, organization_id, agent_id, cost_usd, (occurred_at AT TIME ZONE 'UTC')::date AS day
), added AS (
    SELECT u.organization_id, u.agent_id, u.day, sum(u.cost_usd) AS cost_usd, min(c.cap) AS cap,
           coalesce(sum(u.cost_usd) FILTER (WHERE c.cap IS NOT NULL), 0) AS capped_usd
    FROM inserted_usage u
    LEFT JOIN (
        SELECT id, min(cap) AS cap FROM item GROUP BY id
    ) c USING (id)
    WHERE u.cost_usd > 0
    GROUP BY 1, 2, 3
), of_agents AS (
    INSERT INTO spending (owner_id, day, cost_usd)
    SELECT agent_id, day, cost_usd FROM added ORDER BY 1, 2
    ON CONFLICT (owner_id, day) DO UPDATE SET cost_usd = spending.cost_usd + excluded.cost_usd
    RETURNING owner_id AS agent_id, day, cost_usd AS total_usd
)
INSERT INTO spending (owner_id, day, cost_usd)
SELECT organization_id, day,
       sum(cost_usd - capped_usd + least(capped_usd, greatest(cap - (total_usd - capped_usd), 0)))
FROM added JOIN of_agents USING (agent_id, day)
GROUP BY 1, 2 ORDER BY 1, 2
ON CONFLICT (owner_id, day) DO UPDATE SET cost_usd = spending.cost_usd + excluded.cost_usd
    """,
    ["items"],
)


Spender = tuple[str, str]
"""The id of an organization, and a model."""

MAX_SPENDERS = 500  # that are counted apart
MAX_MODELS_IN_METRICS = 20  # of them, of one organization, which chooses their names
REST = "other"  # the name of those beyond these bounds


@dataclass(slots=True)
class StoredUsage:
    """What one spender has used since the start of the process."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: Decimal = Decimal(0)


class Usage:
    """The table `usage_record`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.stored: dict[Spender, StoredUsage] = {}  # by this process
        self._records = pool.group_commit("usage", self._insert_many, is_write=True)

    async def insert(
        self, record: UsageRecord, receipt: Receipt | None = None, *, cap_usd: Decimal | None = None
    ) -> None:
        """Store the record once, even if it is sent again. Concurrent inserts share a commit.

        With `cap_usd`, the agent's cap for a day, the record counts against its organization only for what
        that cap leaves. Raise AnsweredBefore if the receipt exists already.
        """
        await self._records.add([(record, receipt, cap_usd)])

    async def insert_all(self, records: Sequence[UsageRecord]) -> None:
        """Store the records like `insert`, all of them or none."""
        await self._records.add([(record, None, None) for record in records])

    async def sum_by_model(self, agent_id: UUID, start: datetime, end: datetime) -> UsageSums:
        """Sum up the agent's usage from `start` to before `end`, in total and for up to MAX_MODELS models."""
        conditions = Conditions(*divide(start, end, DAY), MAX_MODELS)
        conditions.add("agent_id = $", agent_id)
        rows = await self._pool.fetch(conditions.into(OF_ONE_AGENT), *conditions.parameters)
        total, *models = (from_row(ModelUsage, row) for row in rows)
        return UsageSums(total, tuple(models), rows[0]["model_count"])

    async def _insert_many(self, groups: list[list[_Item]]) -> list[None]:
        items = list(chain.from_iterable(groups))
        rows = [
            {**values_of(RECORD, record), "cap": cap, "receipt": receipt and values_of(RECEIPT, receipt)}
            for record, receipt, cap in items
        ]
        await self._pool.execute(*INSERT.given(items=rows))
        for record, _, _ in items:
            organization, model = str(record.organization_id), record.model
            if (organization, model) not in self.stored:
                if sum(spender[0] == organization for spender in self.stored) >= MAX_MODELS_IN_METRICS:
                    model = REST
                if len(self.stored) >= MAX_SPENDERS:
                    organization = model = REST
            stored = self.stored.setdefault((organization, model), StoredUsage())
            stored.input_tokens += record.input_tokens
            stored.output_tokens += record.output_tokens
            stored.cached_tokens += record.cached_tokens
            stored.cost_usd += record.cost_usd
        return [None] * len(groups)


# The models beyond the most expensive ones have no rank; their calls of a day are one row.
SUM_BY_DAY = """
WITH daily AS MATERIALIZED (
    SELECT day, model, sum(calls) AS calls, sum(unpriced_calls) AS unpriced_calls,
           sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
           sum(cached_tokens) AS cached_tokens, sum(cost_usd) AS cost_usd
    FROM (/* parts */) part
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

LIST_TOP_AGENTS = """
WITH top AS (
    SELECT agent_id, sum(cost_usd) AS cost_usd, sum(calls)::bigint AS calls
    FROM (/* parts */) part
    GROUP BY 1 ORDER BY 2 DESC, 3 DESC, 1 LIMIT $5
)
SELECT agent_id, coalesce(agent.name, '') AS name, cost_usd, calls
FROM top LEFT JOIN agent ON agent.id = top.agent_id
ORDER BY cost_usd DESC, calls DESC, agent_id
"""

OF_ORGANIZATIONS = fill_in(SUM_BY_DAY, "/* parts */", HOURS + EDGES)
OF_AGENTS = fill_in(SUM_BY_DAY, "/* parts */", DAYS + EDGES)
TOP_AGENTS = fill_in(LIST_TOP_AGENTS, "/* parts */", DAYS + EDGES)

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
        return await fetch_all(self._pool, AgentCost, conditions.into(TOP_AGENTS), *conditions.parameters)


def _within(scope: UsageScope, unit: timedelta, limit: int) -> Conditions:
    """Return the conditions of this scope. The period is divided at the limits of hours or days."""
    conditions = Conditions(*divide(scope.start, scope.end, unit), limit)
    conditions.add("organization_id = ANY($::uuid[])", list(scope.organization_ids))
    conditions.add_optional("agent_id = $", scope.agent_id)
    conditions.add_optional("agent_id IN (SELECT id FROM agent WHERE template_id = $)", scope.template_id)
    return conditions


def _position(row: Record) -> int | None:
    return None if row["rank"] is None else row["rank"] - 1
