"""Reads that callers share: concurrent reads by id are one statement, and what every request needs is cached.

A long row is read alone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Generic, LiteralString, TypeVar
from uuid import UUID

from asyncpg import Record

from storage.postgres.pool import Pool
from storage.postgres.query import fill_in

SHORT_BYTES = 8_192  # of each long column of a row that is read together with others
MAX_ROWS = 100  # that one statement reads
LIFETIME = timedelta(seconds=1)  # of a cached value
FORGOTTEN_SECONDS = 1.1  # when no cache has a value from before
MAX_ENTRIES = 10_000  # of a cache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SharedRows:
    """Reads one row by its id: `get_short` together with others, `get_alone` if that returned None."""

    def __init__(
        self, name: str, pool: Pool, statement: LiteralString, texts: Sequence[str], documents: Sequence[str]
    ) -> None:
        self._pool = pool
        self._statement = statement
        self._statement_for_short = fill_in(statement, "/* and */", f" AND {_is_short(texts, documents)}")
        # Return the row; None if it is long, or if there is none. Concurrent reads share a statement.
        self.get_short = pool.group_commit(f"reads of {name}", self._get_many, max_items=MAX_ROWS).add

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


async def no_other_cache() -> None:
    """Wait for the caches of other nodes where there are none."""


class TtlCache(Generic[Key, Value]):
    """Values by key, each read within the last second. Missing values are not cached.

    A change by this instance empties the cache at once, so the next `get` sees it. Then it waits for
    `others_forget`, which lasts until no other node has a value from before. A change by another program may
    stay unseen for that second, measured by the wall clock. So may a write of this instance that was
    committed although it failed, because the connection was lost.
    """

    def __init__(
        self,
        read: Callable[[Key], Awaitable[Value | None]],
        others_forget: Callable[[], Awaitable[None]] = no_other_cache,
    ) -> None:
        self._read = read
        self._others_forget = others_forget
        self._values: dict[Key, tuple[datetime, Value]] = {}
        self._changes = 0

    def __repr__(self) -> str:
        return f"<TtlCache with {len(self._values)} values>"

    async def get(self, key: Key, now: datetime) -> Value | None:
        """Return the value, at most a second old; None if there is none."""
        if cached := self._values.get(key):
            read_at, value = cached
            if read_at <= now < read_at + LIFETIME:
                return value
        changes = self._changes
        fresh = await self._read(key)
        # A change during the read may have been too late for it, so the value is not cached.
        if fresh is not None and changes == self._changes:
            if len(self._values) >= MAX_ENTRIES and key not in self._values:
                self._values.clear()
            self._values[key] = (now, fresh)
        return fresh

    @asynccontextmanager
    async def invalidating(self) -> AsyncIterator[None]:
        """Empty the cache after a write that the values may depend on, whether it succeeds or fails.

        After one that succeeds no node has an older value.
        """
        try:
            yield
        finally:
            self._changes += 1
            self._values.clear()
        await self._others_forget()
