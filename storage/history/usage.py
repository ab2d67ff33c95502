"""Usage: the tokens and the cost of each model call. The records outlive their agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from storage.delivery.receipts import RECEIPT
from storage.model import Receipt
from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Pool
from storage.postgres.rows import from_row
from storage.postgres.statement import Columns, Statement, arrays_of

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


# The sum of all comes first, then those of single models, the most expensive first. $3 and $4 are the limits
# of the days that are wholly in the period.
SUM_BY_MODEL = """
SELECT coalesce(model, '') AS model, count(*) OVER () - 1 AS model_count,
       coalesce(sum(input_tokens), 0)::bigint AS input_tokens,
       coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
       coalesce(sum(cached_tokens), 0)::bigint AS cached_tokens,
       coalesce(sum(cost_usd), 0) AS cost_usd, coalesce(sum(calls), 0)::bigint AS calls,
       coalesce(sum(unpriced_calls), 0) = 0 AS priced
FROM (
    SELECT model, input_tokens, output_tokens, cached_tokens, cost_usd, calls, unpriced_calls FROM usage_day
    WHERE agent_id = $1
      AND day >= ($3::timestamptz AT TIME ZONE 'UTC')::date
      AND day < ($4::timestamptz AT TIME ZONE 'UTC')::date
    UNION ALL
    SELECT model, input_tokens, output_tokens, cached_tokens, cost_usd, 1, (NOT priced)::integer
    FROM (VALUES ($2::timestamptz, $3::timestamptz), ($4, $5)) AS edge (start_at, end_at)
    CROSS JOIN LATERAL (
        SELECT * FROM usage_record
        WHERE agent_id = $1 AND occurred_at >= start_at AND occurred_at < end_at OFFSET 0
    ) r
) part
GROUP BY GROUPING SETS ((), (model))
ORDER BY grouping(model) DESC, sum(cost_usd) DESC, sum(calls) DESC, model LIMIT $6 + 1
"""

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


ITEM: Columns[_Item] = {
    "id": lambda item: item[0].id,
    "organization_id": lambda item: item[0].organization_id,
    "agent_id": lambda item: item[0].agent_id,
    "trace_id": lambda item: item[0].trace_id,
    "model": lambda item: item[0].model,
    "input_tokens": lambda item: item[0].input_tokens,
    "output_tokens": lambda item: item[0].output_tokens,
    "cached_tokens": lambda item: item[0].cached_tokens,
    "cost_usd": lambda item: item[0].cost_usd,
    "priced": lambda item: item[0].priced,
    "occurred_at": lambda item: item[0].occurred_at,
    "cap": lambda item: item[2],
}

# A writer that did not learn the outcome may send a record again. It counts once, in the sums as well.
# Triggers keep the sums by hour and day. Those of spending are kept here: a record with a cap counts in full
# against its agent, but against the organization only for what this cap of the agent leaves after everything
# else that the agent spent on the day.
INSERT = Statement(
    """
WITH inserted_receipt AS (
    INSERT INTO receipt (
        organization_id, credential, method, path, key, body_hash, status, answer, created_at)
    SELECT * FROM unnest(
        :receipt_organization_id::uuid[],
        :receipt_credential::uuid[], :receipt_method::text[], :receipt_path::text[], :receipt_key::text[],
        :receipt_body_hash::bytea[], :receipt_status::smallint[], :receipt_answer::bytea[],
        :receipt_created_at::timestamptz[])
), inserted_usage AS (
    INSERT INTO usage_record (
        id, organization_id, agent_id, trace_id, model, input_tokens, output_tokens, cached_tokens,
        cost_usd, priced, occurred_at)
    SELECT * FROM unnest(
        :id::uuid[], :organization_id::uuid[], :agent_id::uuid[], :trace_id::uuid[], :model::text[],
        :input_tokens::bigint[], :output_tokens::bigint[], :cached_tokens::bigint[],
        :cost_usd::numeric[], :priced::boolean[], :occurred_at::timestamptz[])
    ON CONFLICT (id) DO NOTHING
    RETURNING id, organization_id, agent_id, cost_usd, (occurred_at AT TIME ZONE 'UTC')::date AS day
), added AS (
    SELECT u.organization_id, u.agent_id, u.day, sum(u.cost_usd) AS cost_usd, min(c.cap) AS cap,
           coalesce(sum(u.cost_usd) FILTER (WHERE c.cap IS NOT NULL), 0) AS capped_usd
    FROM inserted_usage u
    LEFT JOIN (
        SELECT id, min(cap) AS cap FROM unnest(:id::uuid[], :cap::numeric[]) AS i (id, cap) GROUP BY id
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
    [*ITEM, *RECEIPT, "receipt_organization_id"],
)


class Usage:
    """The table `usage_record`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._records = GroupCommit("usage", self._insert_many)

    async def close(self) -> None:
        await self._records.close()

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
        rows = await self._pool.fetch(SUM_BY_MODEL, agent_id, *divide(start, end, DAY), MAX_MODELS)
        total, *models = (from_row(ModelUsage, row) for row in rows)
        return UsageSums(total, tuple(models), rows[0]["model_count"])

    async def _insert_many(self, groups: list[list[_Item]]) -> list[None]:
        items = list(chain.from_iterable(groups))
        receipts = [receipt for _, receipt, _ in items if receipt]
        statement = INSERT.given(
            arrays_of(ITEM, items) | arrays_of(RECEIPT, receipts),
            receipt_organization_id=[record.organization_id for record, receipt, _ in items if receipt],
        )
        await self._pool.execute(*statement)
        return [None] * len(groups)
