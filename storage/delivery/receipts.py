"""Receipts: the answers to requests that may be sent again, each stored in the transaction of its effect."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.model import Receipt, ReceiptKey
from storage.postgres.pool import Connection, Pool
from storage.postgres.rows import from_row

INSERT = """
INSERT INTO receipt (
    credential, method, path, key, body_hash, status, answer, created_at, organization_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""

GET = """
SELECT organization_id, body_hash, status, answer FROM receipt
WHERE credential = $1 AND method = $2 AND path = $3 AND key = $4
"""

REPLACE_ANSWER = """
UPDATE receipt SET answer = $5 WHERE credential = $1 AND method = $2 AND path = $3 AND key = $4
"""

DELETE = "DELETE FROM receipt WHERE credential = $1 AND method = $2 AND path = $3 AND key = $4"

PURGE = """
WITH gone AS (
    DELETE FROM receipt WHERE (credential, method, path, key) IN (
        SELECT credential, method, path, key FROM receipt
        WHERE created_at <= $1 ORDER BY created_at LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone
"""

COLUMNS_OF_RECEIPT = 8


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer that was given, and whose resource it is about."""

    organization_id: UUID
    body_hash: bytes
    status: int
    answer: bytes = field(repr=False)


async def insert_receipt(connection: Connection, receipt: Receipt | None, organization_id: UUID) -> None:
    """Store the receipt, if there is one, within the transaction of its effect.

    First of all writes there: AnsweredBefore is then raised before anything that the first request has taken.
    """
    if receipt is not None:
        await connection.execute(INSERT, *receipt_row(receipt), organization_id)


def receipt_row(receipt: Receipt) -> tuple[Any, ...]:
    """All columns but the organization."""
    return (
        *_key_row(receipt.key),
        receipt.body_hash,
        receipt.status,
        receipt.answer,
        receipt.created_at,
    )


def receipt_columns(receipts: Sequence[Receipt]) -> Sequence[Sequence[Any]]:
    """The receipts of a batch, an array for each column but the organization."""
    return list(zip(*map(receipt_row, receipts), strict=True)) or [()] * COLUMNS_OF_RECEIPT


def _key_row(key: ReceiptKey) -> tuple[Any, ...]:
    return key.credential, key.method, key.path, key.key


class Receipts:
    """The table `receipt`, apart from the effects that it is written with."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, key: ReceiptKey) -> KeptAnswer | None:
        row = await self._pool.fetchrow(GET, *_key_row(key))
        return None if row is None else from_row(KeptAnswer, row)

    async def insert(self, receipt: Receipt, organization_id: UUID) -> None:
        """Store the answer of a request that had no effect; AnsweredBefore if there is one already."""
        await self._pool.execute(INSERT, *receipt_row(receipt), organization_id)

    async def replace_answer(self, receipt: Receipt) -> None:
        """A later answer for the same request, one that says how its effect went on."""
        await self._pool.execute(REPLACE_ANSWER, *_key_row(receipt.key), receipt.answer)

    async def purge(self, until: datetime, most: int) -> int:
        """Delete up to `most` receipts made by `until`, oldest first; how many went."""
        gone: int = await self._pool.fetchval(PURGE, until, most)
        return gone
