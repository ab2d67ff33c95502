"""Receipts: answers to requests that may be sent again, each stored in the transaction of its effect."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.model import Receipt, ReceiptKey
from storage.postgres.pool import Connection, Pool
from storage.postgres.rows import delete_rows, fetch_one

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

DELETE_EXPIRED = """
DELETE FROM receipt WHERE (credential, method, path, key) IN (
    SELECT credential, method, path, key FROM receipt
    WHERE created_at <= $1 ORDER BY created_at LIMIT $2)
"""

RECEIPT_COLUMN_COUNT = 8


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The stored answer, and the organization of the resource that it is about."""

    organization_id: UUID
    body_hash: bytes
    status: int
    answer: bytes = field(repr=False)


async def insert_receipt(connection: Connection, receipt: Receipt | None, organization_id: UUID) -> None:
    """Store the receipt, if there is one, within the transaction of its effect.

    This must be the first write there: a repeated request then raises AnsweredBefore, not NotUnique for a
    value that the first request has taken.
    """
    if receipt is not None:
        await connection.execute(INSERT, *receipt_row(receipt), organization_id)


async def insert_once(
    pool: Pool, receipt: Receipt | None, organization_id: UUID, insert: str, *row: Any
) -> None:
    """Execute `insert` with the values of `row`, in one transaction with the receipt if there is one.

    Raise AnsweredBefore if the receipt exists already, besides the errors of the statement.
    """
    if receipt is None:
        await pool.execute(insert, *row)
        return
    async with pool.transaction() as connection:
        await insert_receipt(connection, receipt, organization_id)
        await connection.execute(insert, *row)


def receipt_row(receipt: Receipt) -> tuple[Any, ...]:
    """Return the receipt's columns in the order of `INSERT`, without the organization."""
    return (
        *_key_row(receipt.key),
        receipt.body_hash,
        receipt.status,
        receipt.answer,
        receipt.created_at,
    )


def receipt_columns(receipts: Sequence[Receipt]) -> Sequence[Sequence[Any]]:
    """Return one array for each column of the receipts, without the organization."""
    return list(zip(*map(receipt_row, receipts), strict=True)) or [()] * RECEIPT_COLUMN_COUNT


def _key_row(key: ReceiptKey) -> tuple[Any, ...]:
    return key.credential, key.method, key.path, key.key


class Receipts:
    """The table `receipt`, except for the rows that are stored together with an effect."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, key: ReceiptKey) -> StoredAnswer | None:
        return await fetch_one(self._pool, StoredAnswer, GET, *_key_row(key))

    async def insert(self, receipt: Receipt, organization_id: UUID) -> None:
        """Store the answer to a request that had no effect. Raise AnsweredBefore if it exists already."""
        await self._pool.execute(INSERT, *receipt_row(receipt), organization_id)

    async def update_answer(self, receipt: Receipt) -> None:
        """Replace the stored answer with the final answer to the same request."""
        await self._pool.execute(REPLACE_ANSWER, *_key_row(receipt.key), receipt.answer)

    async def delete_expired(self, until: datetime, limit: int) -> int:
        """Delete up to `limit` receipts created by `until`, oldest first; return their number."""
        return await delete_rows(self._pool, DELETE_EXPIRED, until, limit)
