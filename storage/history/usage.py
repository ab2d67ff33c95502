"""Usage: the tokens and the cost of each model call. The records outlive their agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from storage.delivery.receipts import receipt_columns
from storage.model import Receipt
from storage.postgres.group_commit import GroupCommit
from storage.postgres.leadership import Sleep
from storage.postgres.pool import Pool
from storage.postgres.rows import fetch_all

# A writer that did not learn the outcome may send a record again. It counts once, in the sums as well.
INSERT = """
WITH inserted_receipt AS (
    INSERT INTO receipt (
        organization_id, credential, method, path, key, body_hash, status, answer, created_at)
    SELECT * FROM unnest(
        $12::uuid[],
        $13::uuid[], $14::text[], $15::text[], $16::text[], $17::bytea[], $18::smallint[], $19::bytea[],
        $20::timestamptz[])
), inserted_usage AS (
    INSERT INTO usage_record (
        id, organization_id, agent_id, trace_id, model, input_tokens, output_tokens, cached_tokens,
        cost_usd, priced, occurred_at)
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
        $9::numeric[], $10::boolean[], $11::timestamptz[])
    ON CONFLICT (id) DO NOTHING
    RETURNING organization_id, agent_id, cost_usd, occurred_at
)
INSERT INTO spending (owner_id, day, cost_usd)
SELECT owner.id, (u.occurred_at AT TIME ZONE 'UTC')::date, sum(u.cost_usd)
FROM inserted_usage u CROSS JOIN LATERAL (VALUES (u.agent_id), (u.organization_id)) AS owner (id)
WHERE u.cost_usd > 0
GROUP BY 1, 2 ORDER BY 1, 2
ON CONFLICT (owner_id, day) DO UPDATE SET cost_usd = spending.cost_usd + excluded.cost_usd
"""

SUM_BY_MODEL = """
SELECT model,
       sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
       sum(cached_tokens)::bigint AS cached_tokens, sum(cost_usd) AS cost_usd, count(*) AS calls
FROM usage_record
WHERE agent_id = $1 AND occurred_at >= $2 AND occurred_at < $3
GROUP BY model ORDER BY model
"""


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
    """The sums over the calls of one model."""

    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: Decimal
    calls: int


class Usage:
    """The table `usage_record`."""

    def __init__(self, pool: Pool, sleep: Sleep | None = None) -> None:
        self._pool = pool
        self._records = GroupCommit("usage", self._insert_many, sleep=sleep)

    async def close(self) -> None:
        await self._records.close()

    async def insert(self, record: UsageRecord, receipt: Receipt | None = None) -> None:
        """Store the record once, even if it is sent again. Concurrent inserts share a commit.

        Raise AnsweredBefore if the receipt exists already.
        """
        await self._records.add((record, receipt))

    async def sum_by_model(self, agent_id: UUID, start: datetime, end: datetime) -> list[ModelUsage]:
        """Sum up the agent's usage from `start` to before `end`, one entry for each model, by name."""
        return await fetch_all(self._pool, ModelUsage, SUM_BY_MODEL, agent_id, start, end)

    async def _insert_many(self, items: Sequence[tuple[UsageRecord, Receipt | None]]) -> list[None]:
        rows = [
            (
                record.id,
                record.organization_id,
                record.agent_id,
                record.trace_id,
                record.model,
                record.input_tokens,
                record.output_tokens,
                record.cached_tokens,
                record.cost_usd,
                record.priced,
                record.occurred_at,
            )
            for record, _ in items
        ]
        receipts = [receipt for _, receipt in items if receipt]
        organizations = [record.organization_id for record, receipt in items if receipt]
        await self._pool.execute(INSERT, *zip(*rows, strict=True), organizations, *receipt_columns(receipts))
        return [None] * len(items)
