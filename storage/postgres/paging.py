"""Lists: the requested part, the rows of it that are read at once, and the statements that read them.

Lists are newest first, and bounded in bytes. With a cursor a deep page costs as much as the first one; rows
skipped by an offset are read and discarded. What tables of organizations have in common is derived from their
`OwnedTable`.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, get_args, get_type_hints
from uuid import UUID

from asyncpg import Record

from storage.postgres.pool import Pool
from storage.postgres.query import Conditions, fill_in
from storage.postgres.statement import from_row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")

Cursor = tuple[datetime, UUID]
"""The (created_at or started_at, id) of the last item seen."""

CHUNK_BYTES = 262_144  # of rows that are read at once; a single row may be longer
ROW_BYTES = 500  # counted for the short columns of a row: about what they take as JSON, with their names


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` items after the cursor, once `offset` of them have been skipped.

    Only as many of them are read as fit `max_bytes`, but at least one. No item follows the one at `until`.
    """

    after: Cursor | None = None
    limit: int = 1000
    offset: int = 0
    max_bytes: int = CHUNK_BYTES
    until: Cursor | None = None

    def with_next(self) -> "Page":
        """Return the page with one more item, which only tells whether the list goes on."""
        return replace(self, limit=self.limit + 1)


class Chunk(list[Item]):
    """The first items of a page, as many as fit its `max_bytes`."""

    __slots__ = ("is_cut",)

    def __init__(self, items: list[Item], *, is_cut: bool) -> None:
        """Set `is_cut` if the page contains more items after these."""
        super().__init__(items)
        self.is_cut = is_cut


Model = TypeVar("Model", bound="DataclassInstance")

# Read the rows of a page that fit. The length of a text is known without reading the text; json and arrays
# are read to be measured, one row at a time. The server sends only rows that fit.
FITTING = """
SELECT * FROM (
    SELECT p.*,
           row_number() OVER w AS place, sum(/* bytes */) OVER w AS total_bytes,
           lead(p.id) OVER w IS NOT NULL AS has_next
    FROM (/* page */) p
    WINDOW w AS (ORDER BY /* order */ ROWS UNBOUNDED PRECEDING)
) p
WHERE place = 1 OR total_bytes <= /* max_bytes */
"""

# The pages that clients ask for most, and one row more: statements are kept for few numbers of rows.
USUAL_ROWS = frozenset(rows + more for rows in (10, 20, 25, 50, 100) for more in (0, 1))

SHORT_TYPES = (UUID, datetime, Decimal, bool, int, float, StrEnum, type(None))


class OrderedConditions(Conditions):
    """The parameters and conditions of a statement that lists rows `p` in an `order`, up to `max_bytes`."""

    def __init__(self, *parameters: object, max_bytes: int, order: str) -> None:
        super().__init__(*parameters)
        self.max_bytes = max_bytes
        self.order = order


class PageConditions(OrderedConditions):
    """The parameters and conditions of a statement that takes the owners, the limit and the offset."""

    def __init__(self, owners: object, page: Page, order: LiteralString) -> None:
        """Start after the page's cursor, a pair of values for `order`: the time column and the id column."""
        columns = [f"p.{column.rpartition('.')[2]}" for column in order.split(", ")]
        by = ", ".join(f"{column} DESC" for column in columns)
        super().__init__(owners, page.limit, page.offset, max_bytes=page.max_bytes, order=by)
        if page.after is not None:
            self.add(f"({order}) < ($, $)", *page.after)
        if page.until is not None:
            self.add(f"({order}) >= ($, $)", *page.until)


class OrganizationsPage(PageConditions):
    """Conditions for a statement that reads a page of each of several organizations, then merges them.

    It has `/* organizations */` for their ids, and `/* rows */` for the number of rows of each. PostgreSQL
    plans a statement again at each execution if its parameters promise fewer rows than it expects of others,
    which takes as long as reading a hundred rows. So the numbers of frequent pages stand in the statement.
    """

    def __init__(self, organization_ids: Collection[UUID], page: Page, order: LiteralString) -> None:
        super().__init__(organization_ids, page, order)
        self._organizations, self._rows = "$1::uuid[]", "$2::bigint + $3::bigint"
        if len(organization_ids) == 1:
            [self.parameters[0]] = organization_ids
            self._organizations = "ARRAY[$1::uuid]"
        if page.limit in USUAL_ROWS and page.offset == 0:
            self._rows = str(page.limit)

    def into(self, statement: LiteralString) -> str:
        sql = fill_in(super().into(statement), "/* organizations */", self._organizations)
        return fill_in(sql, "/* rows */", self._rows)


async def fetch_page(
    pool: Pool,
    model: type[Model],
    statement: LiteralString,
    conditions: OrderedConditions,
    build: Callable[[Record], Model] | None = None,
) -> Chunk[Model]:
    """Return the rows of the page that fit the bytes of the page, built by `build` or by their columns.

    The columns of `model` that hold text, json or arrays count with their length.
    """
    rows = await fetch_rows(pool, model, statement, conditions)
    return Chunk([build(row) if build else from_row(model, row) for row in rows], is_cut=rows.is_cut)


async def fetch_rows(
    pool: Pool,
    model: type["DataclassInstance"],
    statement: LiteralString,
    conditions: OrderedConditions,
) -> Chunk[Record]:
    """Return the same rows as they are, for lists that only show their columns."""
    sql = fill_in(FITTING, "/* page */", conditions.into(statement))
    sql = fill_in(sql, "/* bytes */", _bytes_of_row(model))
    sql = fill_in(sql, "/* order */", conditions.order)
    sql = fill_in(sql, "/* max_bytes */", f"${len(conditions.parameters) + 1}")
    rows = await pool.fetch(sql, *conditions.parameters, conditions.max_bytes)
    return Chunk(rows, is_cut=bool(rows) and rows[-1]["has_next"])


@cache
def _bytes_of_row(model: type["DataclassInstance"]) -> str:
    lengths = (f"coalesce(octet_length(p.{name}::text), 0)" for name in long_columns(model))
    return " + ".join((str(ROW_BYTES), *lengths))


def long_columns(model: type["DataclassInstance"]) -> Iterator[str]:
    """Yield the names of the columns whose values may be long, those of nested models among them."""
    for name, hint in get_type_hints(model).items():
        if isinstance(hint, type) and is_dataclass(hint):
            yield from long_columns(hint)
        elif not all(_is_short(option) for option in get_args(hint) or (hint,)):
            yield name


def _is_short(option: Any) -> bool:
    return isinstance(option, type) and issubclass(option, SHORT_TYPES)


GET_OWNED = """
SELECT {columns} FROM {table} {t}
WHERE {t}.id = ANY((SELECT $1::uuid[])::uuid[]){kept} /* and */
"""

# Read a page of each organization along its index, then take the newest of all.
PAGE_OWNED = """
SELECT {t}.* FROM unnest(/* organizations */) AS o (id)
CROSS JOIN LATERAL (
    SELECT {columns} FROM {table} {t}
    WHERE {t}.organization_id = o.id{kept} /* and */
    ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT /* rows */
) {t}
ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT $2 OFFSET $3
"""

# What one agent sees: its own, and those for all agents of its organization.
PAGE_FOR_AGENT = """
SELECT {t}.* FROM (
    (SELECT {columns} FROM {table} {t}
     WHERE {t}.agent_id = $1 /* and */
     ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT $2::bigint + $3::bigint)
    UNION ALL
    (SELECT {columns} FROM {table} {t}
     WHERE {t}.organization_id = (SELECT a.organization_id FROM agent a WHERE a.id = $1)
       AND {t}.agent_id IS NULL /* and */
     ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT $2::bigint + $3::bigint)
) {t}
ORDER BY {t}.created_at DESC, {t}.id DESC LIMIT $2 OFFSET $3
"""


class OfAgents(StrEnum):
    """The condition that the agent of a row, if it has one, is not deleted.

    It is a subquery: for a join the planner expects few rows, and would sort all of them for each page.
    """

    NONE = ""
    """The rows belong to no agent."""
    ALL = " AND (SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = {t}.agent_id)"
    """Each row belongs to an agent."""
    SOME = " AND coalesce((SELECT a.deleted_at IS NULL FROM agent a WHERE a.id = {t}.agent_id), true)"
    """A row without an agent belongs to all agents of the organization."""


class OwnedTable:
    """The statements that read a table by id, and in pages that are newest first.

    They select the columns of the model from the table under a short name, which further conditions use.
    """

    def __init__(
        self,
        table: str,
        short_name: str,
        model: type["DataclassInstance"],
        of_agents: OfAgents = OfAgents.NONE,
    ) -> None:
        columns = ", ".join(f"{short_name}.{field.name}" for field in fields(model))
        kept = of_agents.format(t=short_name)
        names = {"table": table, "t": short_name, "columns": columns, "kept": kept}
        self.get = GET_OWNED.format(**names)
        self.page = PAGE_OWNED.format(**names)
        self.page_for_agent = PAGE_FOR_AGENT.format(**names)
        self.order = f"{short_name}.created_at, {short_name}.id"

    def listing(
        self, organization_ids: Collection[UUID], agent_id: UUID | None, page: Page
    ) -> tuple[str, PageConditions]:
        """Return the statement and its conditions for what organizations own, or what an agent sees of it."""
        if agent_id is None:
            return self.page, OrganizationsPage(organization_ids, page, self.order)
        return self.page_for_agent, PageConditions(agent_id, page, self.order)
