"""Statements with named parameters, which can be pasted into psql."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, LiteralString, TypeVar

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

    __slots__ = ("names", "sql")

    def __init__(self, text: LiteralString, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
        if differences := set(names).symmetric_difference(self.names):
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
        if merged.keys() != set(self.names):
            raise TypeError(f"{self!r} was given {', '.join(merged)}")
        return (self.sql, *map(merged.__getitem__, self.names))


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
