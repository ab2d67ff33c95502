"""Lists whose items PostgreSQL writes as JSON: all items of a chunk arrive as one value.

The text of an item follows from its fields: the name of each in the answer, and the column that it shows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, LiteralString, NewType, get_args, get_origin, get_type_hints
from uuid import UUID

from storage.postgres.json_values import rewritten
from storage.postgres.page_conditions import PageConditions, fitting
from storage.postgres.paging import JsonChunk
from storage.postgres.pool import Pool
from storage.postgres.query import fill_in

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

JsonText = NewType("JsonText", str)  # JSON that the statement has built itself: inserted as it is
StoredSecret = NewType("StoredSecret", str)  # a secret as it is stored, which not every caller may see

# The last row of a page `with_next` is not shown: it only tells whether the list goes on.
CHUNK = """
SELECT convert_to(string_agg(concat(/* item */), ',' ORDER BY p.place), 'UTF8') AS items, count(*) AS count,
       count(p.next_id) AS followed,
       (array_agg(/* moment */ ORDER BY p.place))[count(*)] AS last_at,
       (array_agg(p.id ORDER BY p.place))[count(*)] AS last_id
FROM (/* fitting */) p WHERE p.place < $2
"""

# A control character, which JSON never contains. It stands before and after a value that Python has to write:
# stored JSON keeps the spaces, the numbers and the repeated names of the program that wrote it, and amounts
# are numbers with all their decimals.
MARK = "\x01"
MARKED = r"coalesce(E'\x01' || {} || E'\x01', 'null')"

# A stored secret is put between other marks. They stay until a handler, which knows the caller, writes it.
SECRET_MARK = "\x02"  # noqa: S105 -- a control character
SECRET = r"E'\x02' || to_json({})::text || E'\x02'"  # noqa: S105 -- SQL

# The driver shows infinite times as the ends of Python's calendar.
INSTANT = """
coalesce('"' || to_char({0}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"',
         CASE {0} WHEN 'infinity' THEN '"9999-12-31T23:59:59.999999Z"'
                  WHEN '-infinity' THEN '"0001-01-01T00:00:00.000000Z"' ELSE 'null' END)
""".strip()

QUOTED = """coalesce('"' || {} || '"', 'null')"""
PLAIN = "coalesce({}::text, 'null')"
# Python writes a whole number as 1.0, and one that JSON cannot express as null.
FLOAT = r"""
CASE WHEN abs({0}) < 'Infinity'
     THEN E'\x01' || {0} || CASE WHEN trunc({0}) = {0} AND abs({0}) < 1e15 THEN '.0' ELSE '' END || E'\x01'
     ELSE 'null' END
""".strip()
ESCAPED = "coalesce(to_json({})::text, 'null')"

BY_TYPE: Mapping[Any, str] = {
    UUID: QUOTED,
    StrEnum: QUOTED,
    datetime: INSTANT,
    bool: PLAIN,
    int: PLAIN,
    float: FLOAT,
    str: ESCAPED,
    tuple: ESCAPED,
    Decimal: MARKED,
    Any: MARKED,
    JsonText: "{}",
    StoredSecret: SECRET,
}


@dataclass(frozen=True, eq=False)
class JsonItem:
    """The JSON object that shows a row: the column of each field, whose type is that in `model`.

    `rewrite` returns the text that shows a marked value.
    """

    model: type["DataclassInstance"]
    columns: Mapping[str, str]
    rewrite: Callable[[bytes], bytes] = rewritten

    @cached_property
    def sql(self) -> str:
        """The arguments of `concat` that write the object for a row `p`."""
        types = get_type_hints(self.model)
        pieces = []
        for number, (field, column) in enumerate(self.columns.items()):
            pieces.append(f"""'{"," if number else "{"}"{field}":'""")
            pieces.append(_writer(types[column]).format(f"p.{column}"))
        return ", ".join((*pieces, "'}'"))


async def fetch_json(
    pool: Pool, item: JsonItem, statement: LiteralString, conditions: PageConditions
) -> JsonChunk:
    """Return the rows that fit the bytes of a page. The conditions are those of `page.with_next()`."""
    sql = fill_in(CHUNK, "/* item */", item.sql)
    sql = fill_in(sql, "/* moment */", conditions.moment)
    sql = fill_in(sql, "/* fitting */", fitting(item.model, statement, conditions))
    [row] = await pool.fetch(sql, *conditions.parameters, conditions.max_bytes)
    if not row["count"]:
        return JsonChunk(b"", 0, None, has_more=False)
    items, last = rewrite_marked(row["items"], item.rewrite), (row["last_at"], row["last_id"])
    return JsonChunk(items, row["count"], last, has_more=row["followed"] == row["count"])


def _writer(hint: Any) -> str:
    """Return the SQL that writes a value of this type, or null, with `{}` for the column."""
    options = [option for option in get_args(hint) if option is not NoneType]
    kind = options[0] if isinstance(hint, UnionType) and len(options) == 1 else hint
    if get_origin(kind) is tuple and is_dataclass(get_args(kind)[0]):
        return MARKED  # an array of objects
    kind = get_origin(kind) or kind
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        kind = StrEnum
    return BY_TYPE[kind]


def rewrite_marked(items: bytes, rewrite: Callable[[bytes], bytes], mark: str = MARK) -> bytes:
    """Return the items with their marked values as `rewrite` writes them."""
    marker = mark.encode()
    if marker not in items:
        return items
    pieces = items.split(marker)
    pieces[1::2] = map(rewrite, pieces[1::2])
    return b"".join(pieces)
