"""Reads by id: concurrent reads of short rows share a statement; a long row is read alone."""

from collections.abc import Callable, Sequence
from typing import Generic, LiteralString, TypeVar
from uuid import UUID

from asyncpg import Record

from storage.postgres.group_commit import GroupCommit
from storage.postgres.pool import Pool
from storage.postgres.query import fill_in

SHORT_BYTES = 8_192  # of each long column of a row that is read together with others
MAX_ROWS = 100  # that one statement reads

Value = TypeVar("Value")


class SharedRows:
    """Reads one row by its id: `get_short` together with others, `get_alone` if that returned None."""

    def __init__(
        self, name: str, pool: Pool, statement: LiteralString, texts: Sequence[str], documents: Sequence[str]
    ) -> None:
        self._pool = pool
        self._statement = statement
        self._statement_for_short = fill_in(statement, "/* and */", f" AND {_is_short(texts, documents)}")
        self._short_reads = GroupCommit(f"reads of {name}", self._get_many, max_items=MAX_ROWS)

    async def get_short(self, row_id: UUID) -> Record | None:
        """Return the row; None if it is long, or if there is none. Concurrent reads share a statement."""
        return await self._short_reads.add(row_id)

    async def get_alone(self, row_id: UUID) -> Record | None:
        """Return the row, short or long, by a statement of its own; None if there is none."""
        return await self._pool.fetchrow(self._statement, [row_id])

    async def _get_many(self, row_ids: list[UUID]) -> list[Record | None]:
        rows = {row["id"]: row for row in await self._pool.fetch(self._statement_for_short, row_ids)}
        return [rows.get(row_id) for row_id in row_ids]


class SharedReads(Generic[Value]):
    """Reads one value by its id, called like a function: `await notifications.get(notification_id)`.

    Callers that must not keep others waiting use the two steps of such a call by themselves: `get_short`, and
    `get_alone` in a turn of their own if the first returned None. Those that only show the row use `rows`.
    """

    def __init__(
        self,
        name: str,
        pool: Pool,
        statement: LiteralString,
        build: Callable[[Record], Value],
        *,
        texts: tuple[LiteralString, ...] = (),
        documents: tuple[LiteralString, ...] = (),
    ) -> None:
        """Read by a `statement` that takes an array of ids, and has `/* and */` for a further condition.

        The array must be the result of a subquery, which hides its length from the planner: with a visible
        length PostgreSQL would plan the statement again at each execution. Name the columns that may be long:
        `texts`, and `documents` of type json or an array.
        """
        self.rows = SharedRows(name, pool, statement, texts, documents)
        self._build = build
        self._has_long_rows = bool(texts or documents)

    async def __call__(self, row_id: UUID) -> Value | None:
        """Return the value with this id, short or long; None if there is none."""
        value = await self.get_short(row_id)
        if value is not None or not self._has_long_rows:
            return value
        return await self.get_alone(row_id)

    async def get_short(self, row_id: UUID) -> Value | None:
        """Return the value; None if its row is long, or if there is none."""
        row = await self.rows.get_short(row_id)
        return None if row is None else self._build(row)

    async def get_alone(self, row_id: UUID) -> Value | None:
        """Return the value, whether its row is short or long; None if there is none."""
        row = await self.rows.get_alone(row_id)
        return None if row is None else self._build(row)


def _is_short(texts: Sequence[str], documents: Sequence[str]) -> str:
    """Return the condition on the long columns. It compares lengths that are known without reading a column.

    The known length of a document is that of its compressed form. Only one that is short in this form is read
    to be measured.
    """
    lengths = [f"octet_length({column})" for column in texts]
    for column in documents:
        lengths += (f"pg_column_size({column})", f"octet_length({column}::text)")
    return " AND ".join(("true", *(f"coalesce({length}, 0) <= {SHORT_BYTES}" for length in lengths)))
