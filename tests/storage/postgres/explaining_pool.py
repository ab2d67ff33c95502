"""A pool that counts the rows that the steps of each statement read."""

from collections.abc import Iterator
from typing import Any

import asyncpg

from storage.postgres.pool import Pool


class ExplainingPool(Pool):
    """A copy of the given pool that explains each statement before it executes it."""

    def __init__(self, pool: Pool) -> None:
        vars(self).update(vars(pool))
        self.rows_touched: dict[str, int] = {}

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        async with self._connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            [(plan,)] = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *args)
            await transaction.rollback()
        touched = max(_rows_touched(plan[0]["Plan"]))
        self.rows_touched[sql] = max(touched, self.rows_touched.get(sql, 0))
        return await super().fetch(sql, *args)


def _rows_touched(node: dict[str, Any]) -> Iterator[int]:
    """Yield the number of rows that each step of a plan has read, including rows it discarded."""
    removed = sum(value for key, value in node.items() if key.startswith("Rows Removed"))
    yield int((node["Actual Rows"] + removed) * node["Actual Loops"])
    for child in node.get("Plans", ()):
        yield from _rows_touched(child)
