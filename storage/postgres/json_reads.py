"""Reads by id whose answers PostgreSQL writes as JSON: concurrent reads of short rows share a statement."""

from dataclasses import dataclass
from typing import get_type_hints
from uuid import UUID

from asyncpg import Record

from storage.postgres.group_commit import GroupCommit
from storage.postgres.json_pages import JsonItem, rewrite_marked
from storage.postgres.pool import Pool
from storage.postgres.query import fill_in

MAX_ROWS = 100  # that one statement reads

# A long row is found, but not written.
READ = """
SELECT p.id, p.organization_id, p./* agent */ AS agent_id,
       CASE WHEN /* is short */ THEN convert_to(concat(/* item */), 'UTF8') END AS text
FROM (/* statement */) p
"""


@dataclass(frozen=True, slots=True)
class JsonRow:
    """The JSON object that shows a row, and whose row it is. The text of a row that is long may be blank."""

    organization_id: UUID
    agent_id: UUID | None
    text: bytes


class JsonReads:
    """Reads one row by its id as JSON."""

    def __init__(self, name: str, pool: Pool, statement: str, item: JsonItem, is_short: str) -> None:
        """Read by a `statement` like that of `SharedReads`, which consists of constants.

        `is_short` is a condition on a row `p` of it.
        """
        self._pool = pool
        self._rewrite = item.rewrite
        sql = fill_in(READ, "/* statement */", fill_in(statement, "/* and */", ""))
        sql = fill_in(sql, "/* item */", item.sql)
        sql = fill_in(sql, "/* agent */", "agent_id" if "agent_id" in get_type_hints(item.model) else "id")
        self._statement = fill_in(sql, "/* is short */", "true")
        self._statement_for_short = fill_in(sql, "/* is short */", is_short)
        self._short_reads = GroupCommit(f"reads of {name} as JSON", self._get_many, max_items=MAX_ROWS)

    async def get_short(self, row_id: UUID) -> JsonRow | None:
        """Return the row, with a blank text if it is long; None if there is none."""
        return await self._short_reads.add(row_id)

    async def get_alone(self, row_id: UUID) -> JsonRow | None:
        """Return the row, short or long, by a statement of its own; None if there is none."""
        row = await self._pool.fetchrow(self._statement, [row_id])
        return None if row is None else self._build(row)

    async def _get_many(self, row_ids: list[UUID]) -> list[JsonRow | None]:
        build = self._build
        rows = {row["id"]: build(row) for row in await self._pool.fetch(self._statement_for_short, row_ids)}
        return [rows.get(row_id) for row_id in row_ids]

    def _build(self, row: Record) -> JsonRow:
        text = rewrite_marked(row["text"] or b"", self._rewrite)
        return JsonRow(row["organization_id"], row["agent_id"], text)
