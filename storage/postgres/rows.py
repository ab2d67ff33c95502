"""Conversion of rows to values of the model."""

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from asyncpg import Record

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Model = TypeVar("Model", bound="DataclassInstance")


def from_row(model: type[Model], row: Record, **given: object) -> Model:
    """Build a value from the row's columns of the same names as its fields, except for the fields `given`."""
    columns = {name: row[name] for name in _names(model) if name not in given}
    return model(**columns, **given)


@cache
def _names(model: type["DataclassInstance"]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(model))
