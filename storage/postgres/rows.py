"""From a row to a value of the model."""

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from asyncpg import Record

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Model = TypeVar("Model", bound="DataclassInstance")


def from_row(model: type[Model], row: Record, **given: object) -> Model:
    """The value whose fields are the row's columns of the same names, but for those `given` here."""
    kept = {name: row[name] for name in _names(model) if name not in given}
    return model(**kept, **given)


@cache
def _names(model: type["DataclassInstance"]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(model))
