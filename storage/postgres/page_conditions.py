"""Statements that list one page, newest first, bounded in bytes."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, get_args, get_type_hints
from uuid import UUID

from asyncpg import Record

from storage.postgres.paging import ROW_BYTES, Chunk, Page
from storage.postgres.pool import Pool
from storage.postgres.query import Conditions, fill_in
from storage.postgres.rows import from_row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Model = TypeVar("Model", bound="DataclassInstance")

# Read the rows of a page that fit. The length of a text is known without reading the text; json and arrays
# are read to be measured, one row at a time. The server sends only rows that fit.
FITTING = """
SELECT * FROM (
    SELECT p.*,
           row_number() OVER w AS place, sum(/* bytes */) OVER w AS total_bytes, lead(p.id) OVER w AS next_id
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
    return Chunk(rows, is_cut=bool(rows) and rows[-1]["next_id"] is not None)


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
