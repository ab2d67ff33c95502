"""PostgreSQL writes listed items, and those read by their id, with the bytes that Python writes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.channels.messages import Attachment, Message, message_of
from storage.postgres.json_pages import JsonItem, fetch_json
from storage.postgres.json_values import to_json as stored_json
from storage.postgres.page_conditions import PageConditions
from storage.postgres.paging import Page
from storage.postgres.pool import Pool
from storage.postgres.rows import from_row
from storage.postgres.shared_reads import SharedReads
from web.json import to_json
from web.schemas.agents import LISTED_AGENT, serialize_agent
from web.schemas.contacts import LISTED_CONTACT, serialize_contact
from web.schemas.documents import LISTED_DOCUMENT, serialize_document
from web.schemas.messages import LISTED_MESSAGE, serialize_message
from web.schemas.notifications import LISTED_NOTIFICATION, serialize_notification
from web.schemas.runs import LISTED_RUN, serialize_run

Serialize = Callable[[Any], Any]

LISTED: dict[str, tuple[JsonItem, Serialize]] = {
    "agent": (LISTED_AGENT, serialize_agent),
    "contact": (LISTED_CONTACT, serialize_contact),
    "document": (LISTED_DOCUMENT, serialize_document),
    "message": (LISTED_MESSAGE, serialize_message),
    "notification": (LISTED_NOTIFICATION, serialize_notification),
    "run": (LISTED_RUN, serialize_run),
}
EVERY_CHARACTER = "".join(map(chr, (*range(1, 0xD800), *range(0xE000, 0x110000))))
STORED_JSON = (  # by other programs, or as our own encoder writes it
    '{"a": 1, "b" : [ ], "a": 2}',
    '{\n\t"a": 1e5\n}',
    "[1.0, -0.0, 1E5, 1e-7, 123456789012345678, 18446744073709551616, 0.1000]",
    r'"\u00e9\ud83d\ude00\/\n\u001f\u007f"',
    "null",
    ' "\u2028\\u2028" ',
    json.dumps({"long": "x" * 40_000, "n": 1e5}, separators=(" , ", " : ")),
    json.dumps(["x" * 40_000], indent=1),
)

# The driver stores the moments before and after these as infinities.
FIRST_MOMENT = datetime(1, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001 -- hypothesis adds the zone
LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, 999_998)  # noqa: DTZ001

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(texts, values, max_size=3),
    max_leaves=8,
)
json_texts = st.sampled_from(STORED_JSON) | st.builds(
    json.dumps, json_values, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 1])
)

links = st.builds(Attachment, texts, texts, texts)
uploads = st.builds(Attachment, texts, texts, texts, st.uuids(), st.integers(0, 2**31))
attachments = st.lists(links | uploads, max_size=3).map(lambda files: stored_json(files).decode())


@dataclass(frozen=True)
class Kind:
    """The type of a column, and its values as parameters of a statement."""

    column: str
    values: st.SearchStrategy[Any]


def kind_of(hint: Any) -> Kind:
    """Return the kind of column that holds values of a field with this type."""
    if isinstance(hint, UnionType):
        [option] = [option for option in get_args(hint) if option is not NoneType]
        kind = kind_of(option)
        return Kind(kind.column, st.none() | kind.values)
    if hint == tuple[Attachment, ...]:
        return Kind("text::json", attachments)
    if get_origin(hint) is tuple:
        kind = kind_of(get_args(hint)[0])
        return Kind(f"{kind.column}[]", st.lists(kind.values, max_size=3))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Kind("text", st.sampled_from(hint))
    return KINDS[hint]


KINDS: dict[Any, Kind] = {
    UUID: Kind("uuid", st.uuids()),
    str: Kind("text", texts),
    bool: Kind("boolean", st.booleans()),
    int: Kind("bigint", st.integers(-(2**63), 2**63 - 1)),
    datetime: Kind("timestamptz", st.datetimes(FIRST_MOMENT, LAST_MOMENT, timezones=st.just(UTC))),
    Decimal: Kind("numeric(18, 6)", st.decimals(0, 10**12 - 1, places=6)),
    Any: Kind("text::json", st.none() | json_texts),
}
MOMENTS = (
    FIRST_MOMENT.replace(tzinfo=UTC),
    LAST_MOMENT.replace(tzinfo=UTC),
    datetime(999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 11, 21, 9, tzinfo=UTC),
    datetime(2026, 11, 21, 9, 0, 0, 500_000, tzinfo=UTC),
)
AMOUNTS = tuple(map(Decimal, ("0", "0.000001", "0.00001", "0.1", "5", "123456.78", "999999999999.999999")))


CREATE = "CREATE TABLE IF NOT EXISTS item ({})"
REPLACE = "WITH d AS (DELETE FROM item) INSERT INTO item VALUES ({})"
GET = "SELECT i.* FROM item i WHERE i.id = ANY((SELECT $1::uuid[])::uuid[]) /* and */"
ROW = "SELECT r.* FROM (SELECT /* columns */) r WHERE $1::text = '' /* and */ LIMIT $2 OFFSET $3"


async def require_same_bytes(pool: Pool, item: JsonItem, serialize: Serialize, values: list[Any]) -> None:
    """Compare a page of one row that contains these values, in the order of the fields of the model."""
    hints = get_type_hints(item.model)
    parameters = enumerate(hints.items(), start=4)
    columns = [f"${number}::{kind_of(hint).column} AS {name}" for number, (name, hint) in parameters]
    statement = ROW.replace("/* columns */", ", ".join(columns))
    rows = await pool.fetch(statement, "", 1, 0, *values)
    single = [
        serialize(message_of(row) if item.model is Message else from_row(item.model, row)) for row in rows
    ]
    moment = "r.created_at" if "created_at" in hints else "r.started_at"
    conditions = PageConditions("", Page().with_next(), f"{moment}, r.id")
    conditions.parameters += values

    chunk = await fetch_json(pool, item, statement, conditions)

    assert b"[%b]" % chunk.items == to_json(single)
    assert (chunk.count, chunk.has_more) == (1, False)
    assert await read_alone(pool, item, rows[0]["id"], values) == to_json(single[0])


async def read_alone(pool: Pool, item: JsonItem, item_id: UUID, values: list[Any]) -> bytes:
    """Store an item and read it by its id."""
    kinds = {name: kind_of(hint).column for name, hint in get_type_hints(item.model).items()}
    types = (f"{name} {kind.rpartition('::')[2]}" for name, kind in kinds.items())
    await pool.execute(CREATE.format(", ".join(types)))
    parameters = (f"${number}::{kind}" for number, kind in enumerate(kinds.values(), start=1))
    await pool.execute(REPLACE.format(", ".join(parameters)), *values)
    row = await SharedReads("items", pool, GET, tuple).as_json(item).get_short(item_id)
    return row.text if row else b""


@pytest.mark.parametrize("name", LISTED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(data=st.data())
async def test_listed_item_has_the_bytes_of_a_single_one(pool: Pool, name: str, data: st.DataObject) -> None:
    item, serialize = LISTED[name]
    values = data.draw(st.tuples(*(kind_of(hint).values for hint in get_type_hints(item.model).values())))
    await require_same_bytes(pool, item, serialize, list(values))


SPECIAL: dict[Any, tuple[Any, ...]] = {
    str: (EVERY_CHARACTER, "", '\\"', "\u2028"),
    datetime: MOMENTS,
    Decimal: AMOUNTS,
    Any: (*STORED_JSON, None),
    int: (-(2**63), 2**63 - 1, 0),
}


def ordinary_value(hint: Any) -> Any:
    """Return a value of a field with this type that is not null."""
    option = get_args(hint)[0] if isinstance(hint, UnionType) else hint
    if isinstance(option, type) and issubclass(option, StrEnum):
        return next(iter(option))
    if option == tuple[Attachment, ...]:
        return '[{"name": "a",  "url": "x", "content_type": ""}]'
    return ORDINARY[kind_of(option).column]


@pytest.mark.parametrize("name", LISTED)
async def test_special_values_are_listed_as_shown_alone(pool: Pool, name: str) -> None:
    item, serialize = LISTED[name]
    hints = get_type_hints(item.model)
    ordinary = {field: ordinary_value(hint) for field, hint in hints.items()}
    await require_same_bytes(pool, item, serialize, list(ordinary.values()))
    for field, hint in hints.items():
        options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        special = [value for option in options for value in SPECIAL.get(option, ())]
        for value in (*special, *([None] if NoneType in options else ())):
            await require_same_bytes(pool, item, serialize, list({**ordinary, field: value}.values()))


ORDINARY: dict[str, Any] = {
    "uuid": UUID(int=7),
    "text": "Grüße",
    "boolean": True,
    "bigint": 3,
    "timestamptz": datetime(2026, 11, 21, 9, 0, 0, 120_000, tzinfo=UTC),
    "numeric(18, 6)": Decimal("2.5"),
    "text::json": "{}",
    "uuid[]": [UUID(int=1), UUID(int=2)],
    "text[]": ['"', "b"],
}
