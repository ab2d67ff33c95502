"""Conversion between rows and values of the model, with columns and fields matched by name."""

import re
from dataclasses import fields
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from asyncpg import Record

from storage.postgres.pool import Connection, Pool

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Model = TypeVar("Model", bound="DataclassInstance")

_INSERTED_COLUMNS = re.compile(r"\s*(?:WITH \w+ AS \(\s*)?INSERT INTO \w+ \(([^)]*)\)")


async def fetch_one(database: "Pool | Connection", model: type[Model], sql: str, *args: Any) -> Model | None:
    """Return the value built from the statement's row; None if there is no row."""
    row = await database.fetchrow(sql, *args)
    return None if row is None else from_row(model, row)


async def fetch_all(database: "Pool | Connection", model: type[Model], sql: str, *args: Any) -> list[Model]:
    """Return the values built from the statement's rows."""
    return [from_row(model, row) for row in await database.fetch(sql, *args)]


async def delete_rows(database: "Pool | Connection", sql: str, *args: Any) -> int:
    """Run a DELETE and return the number of deleted rows, the last word of its command tag."""
    return int((await database.execute(sql, *args)).split()[-1])


def to_row(insert: str, value: object, /, **given: object) -> list[object]:
    """Return the parameters of an INSERT: for each of its columns, the value's field or what is `given`."""
    return [given[name] if name in given else getattr(value, name) for name in _columns(insert)]


def from_row(model: type[Model], row: Record, **given: object) -> Model:
    """Build a value from the row's columns of the same names as its fields, except for the fields `given`.

    Strings become enums, and arrays become tuples or sets, where the model's fields have these types.
    """
    columns = {name: row[name] for name in _names(model) if name not in given}
    for name, convert in _conversions(model):
        if columns.get(name) is not None:
            columns[name] = convert(columns[name])
    return model(**columns, **given)


@cache
def _columns(insert: str) -> list[str]:
    match = _INSERTED_COLUMNS.match(insert)
    if match is None:
        raise ValueError(f"the statement is no INSERT that lists its columns: {insert}")
    return re.findall(r"\w+", match[1])


@cache
def _names(model: type["DataclassInstance"]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(model))


@cache
def _conversions(model: type["DataclassInstance"]) -> list[tuple[str, type]]:
    """Return the fields whose values asyncpg returns as another type, with the type of each."""
    conversions = []
    for name, hint in get_type_hints(model).items():
        for option in get_args(hint) if isinstance(hint, UnionType) else (hint,):
            kind = get_origin(option) or option
            if isinstance(kind, type) and issubclass(kind, (StrEnum, tuple, frozenset)):
                conversions.append((name, kind))
    return conversions
