"""Receipts: answers to requests that may be sent again, each stored in the transaction of its effect."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from storage.model import Receipt, ReceiptKey
from storage.postgres.pool import Connection, Pool
from storage.postgres.statement import Columns, Statement, columns_of, delete_rows, fetch_one, values_of

KEY = columns_of(ReceiptKey)
RECEIPT: Columns[Receipt] = {
    **columns_of(ReceiptKey, path="key."),
    **columns_of(Receipt, without=("key",)),
}

INSERT = Statement(
    """
    INSERT INTO receipt (
        credential, method, path, key, body_hash, status, answer, created_at, organization_id)
    VALUES (:credential, :method, :path, :key, :body_hash, :status, :answer, :created_at, :organization_id)
    """,
    [*RECEIPT, "organization_id"],
)

GET = Statement(
    """
    SELECT organization_id, body_hash, status, answer FROM receipt
    WHERE credential = :credential AND method = :method AND path = :path AND key = :key
    """,
    KEY,
)

REPLACE_ANSWER = Statement(
    """
    UPDATE receipt SET answer = :answer
    WHERE credential = :credential AND method = :method AND path = :path AND key = :key
    """,
    [*KEY, "answer"],
)

DELETE_EXPIRED = """
DELETE FROM receipt WHERE (credential, method, path, key) IN (
    SELECT credential, method, path, key FROM receipt
    WHERE created_at <= $1 ORDER BY created_at LIMIT $2)
"""


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
    value that the first request has taken. It waits for a first request that has not ended, so the
    transaction must be one of `Pool.write`: many repeats would take all connections otherwise.
    """
    if receipt is not None:
        values = values_of(RECEIPT, receipt)
        await connection.execute(*INSERT.given(values, organization_id=organization_id))


async def insert_once(
    pool: Pool, receipt: Receipt | None, organization_id: UUID, insert: str, *row: Any
) -> None:
    """Execute `insert` with the values of `row`, in one transaction with the receipt if there is one.

    Raise AnsweredBefore if the receipt exists already, besides the errors of the statement.
    """

    async def work(connection: Connection) -> None:
        await insert_receipt(connection, receipt, organization_id)
        await connection.execute(insert, *row)

    await (pool.execute(insert, *row) if receipt is None else pool.write(work, "insert with a receipt"))


class Receipts:
    """The table `receipt`, except for the rows that are stored together with an effect."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, key: ReceiptKey) -> StoredAnswer | None:
        return await fetch_one(self._pool, StoredAnswer, *GET.given(values_of(KEY, key)))

    async def insert(self, receipt: Receipt, organization_id: UUID) -> None:
        """Store the answer to a request that had no effect. Raise AnsweredBefore if it exists already."""
        await self._pool.write(
            lambda connection: insert_receipt(connection, receipt, organization_id), "insert of a receipt"
        )

    async def update_answer(self, receipt: Receipt) -> None:
        """Replace the stored answer with the final answer to the same request."""
        key = values_of(KEY, receipt.key)
        await self._pool.execute(*REPLACE_ANSWER.given(key, answer=receipt.answer))

    async def delete_expired(self, until: datetime, limit: int) -> int:
        """Delete up to `limit` receipts created by `until`, oldest first; return their number."""
        return await delete_rows(self._pool, DELETE_EXPIRED, until, limit)
