"""Statements with named parameters, which can be pasted into psql, and the conversion of rows into values."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from asyncpg import Record

from storage.postgres.pool import Connection, Pool

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")
Columns = Mapping[str, Callable[[Item], object]]
"""The parameters that items stand for: the name of each, and what it is of an item."""

_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")  # not the type in `::type`
_UNNEST = re.compile(r"unnest\(([^()]*)\)\s*(?:WITH ORDINALITY\s+)?AS \w+ \(([^()]*)\)")


class Statement:
    """A statement whose parameters are written `:name`, as variables of psql; PostgreSQL gets $1, $2, ….

    Raise ValueError, when the module is imported, unless its parameters are exactly `names`. Where `unnest`
    makes a table of arrays, each column must be called like its parameter, which may have a prefix.
    """

    __slots__ = ("_expected", "names", "sql")

    def __init__(self, text: LiteralString, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
        self._expected = frozenset(self.names)
        if differences := self._expected.symmetric_difference(names):
            raise ValueError(f"parameters unknown or unused: {', '.join(sorted(differences))}")
        for arrays, columns in _UNNEST.findall(text):
            _require_same_order(_PARAMETER.findall(arrays), re.findall(r"\w+", columns))
        numbers = {name: f"${number}" for number, name in enumerate(self.names, start=1)}
        self.sql = _PARAMETER.sub(lambda match: numbers[match[1]], text)

    def __repr__(self) -> str:
        return f"<Statement of {', '.join(self.names)}>"

    def given(self, values: Mapping[str, object] | None = None, /, **others: object) -> tuple[Any, ...]:
        """Return the SQL and its parameters, to call `fetch` or `execute`: `fetch(*GET.given(id=row_id))`.

        Raise TypeError unless each parameter has a value, and each value a parameter.
        """
        merged = {**(values or {}), **others}
        if merged.keys() != self._expected:
            raise TypeError(f"{self!r} was given {', '.join(merged)}")
        return (self.sql, *map(merged.__getitem__, self.names))


def columns_of(
    model: type["DataclassInstance"], *, path: str = "", prefix: str = "", without: Collection[str] = ()
) -> dict[str, Callable[[Any], object]]:
    """Return a parameter for each field of the model, which is the part of an item at `path`.

    The name of a parameter is that of the field, after the `prefix`.
    """
    names = [field.name for field in fields(model) if field.name not in without]
    return {prefix + name: attrgetter(path + name) for name in names}


def arrays_of(columns: Columns[Item], items: Sequence[Item]) -> dict[str, object]:
    """Return an array for each column, with its values of all items."""
    return {name: [value_of(item) for item in items] for name, value_of in columns.items()}


def values_of(columns: Columns[Item], item: Item) -> dict[str, object]:
    """Return the value of each column."""
    return {name: value_of(item) for name, value_of in columns.items()}


def _require_same_order(parameters: Sequence[str], columns: Sequence[str]) -> None:
    for parameter, column in zip(parameters, columns, strict=False):
        if parameter != column and not parameter.endswith(f"_{column}"):
            raise ValueError(f"the column {column} would be made of the parameter {parameter}")


Model = TypeVar("Model", bound="DataclassInstance")


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


async def delete_row(database: "Pool | Connection", table: LiteralString, row_id: UUID) -> bool:
    """Delete the row with this id; return False if there is none."""
    return await delete_rows(database, f"DELETE FROM {table} WHERE id = $1", row_id) > 0  # noqa: S608


def insert_into(table: LiteralString, columns: Mapping[str, object]) -> tuple[Any, ...]:
    """Return the INSERT of one row and its parameters: `execute(*insert_into("project", {"id": …}))`."""
    numbers = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    # The names are those of fields and of constants in the code.
    insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({numbers})"  # noqa: S608
    return (insert, *columns.values())


def fields_of(value: "DataclassInstance", *, without: Collection[str] = ()) -> dict[str, object]:
    """Return the fields of a value, whose names are those of the columns that store them."""
    return {name: getattr(value, name) for name in _names(type(value)) if name not in without}


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
