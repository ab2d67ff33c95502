"""Answers derived from their declaration: the fields of a response type, and what each of them shows."""

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar, cast, get_type_hints

from asyncpg import Record

Model = TypeVar("Model", contravariant=True)
Answer = TypeVar("Answer", covariant=True)


class Serializer(Generic[Model, Answer]):
    """Shows values of a model as an answer, called like a function: `serialize_contact(contact)`.

    A field of the answer shows the attribute of its name, or else that of its name and `_id`.
    """

    def __init__(self, answer: type[Answer], model: type[Model], **attributes: str) -> None:
        """Derive the attributes, but for the fields whose attributes are given.

        Raise TypeError for a field that the model has no attribute for.
        """
        shown = [attributes.get(field) or _attribute(model, field) for field in get_type_hints(answer)]
        self._fields = tuple(get_type_hints(answer))
        self._read_attributes: Callable[[Model], tuple[Any, ...]] = attrgetter(*shown)
        self._read_columns: Callable[[Record], tuple[Any, ...]] = itemgetter(*shown)

    def __call__(self, value: Model) -> Answer:
        return cast(Answer, dict(zip(self._fields, self._read_attributes(value), strict=True)))

    def row(self, row: Record) -> Answer:
        """Show a row with the columns of the model. Lists need no model: its values are the same as JSON."""
        return cast(Answer, dict(zip(self._fields, self._read_columns(row), strict=True)))


def _attribute(model: Any, field: str) -> str:
    for name in (field, f"{field}_id"):
        if hasattr(model, name) or name in {each.name for each in fields(model)}:
            return name
    raise TypeError(f"{model.__name__} has no attribute for the field {field}: name one")
