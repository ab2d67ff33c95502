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

    def __init__(
        self, answer: type[Answer], model: type[Model], /, **shown: str | Callable[[Any], object]
    ) -> None:
        """Derive the attributes, but for the fields that show a given attribute, or what a function returns.

        Raise TypeError for a field that the model has no attribute for.
        """
        self._fields = tuple(get_type_hints(answer))
        sources = [shown.get(field) or _attribute(model, field) for field in self._fields]
        self._readers = [source if callable(source) else attrgetter(source) for source in sources]
        columns = [source for source in sources if isinstance(source, str)]
        self._read_columns: Callable[[Record], tuple[Any, ...]] | None = None
        if len(columns) == len(sources):
            self._read_columns = itemgetter(*columns)

    def __call__(self, value: Model) -> Answer:
        return cast(
            Answer, {name: read(value) for name, read in zip(self._fields, self._readers, strict=True)}
        )

    def row(self, row: Record) -> Answer:
        """Show a row with the columns of the model. Lists need no model: its values are the same as JSON.

        Raise TypeError if a field shows what a function returns: a row has no such value.
        """
        if self._read_columns is None:
            raise TypeError("a row cannot show what functions return")
        # Lists are long, and `strict` would take nearly as long as reading the columns.
        return cast(Answer, dict(zip(self._fields, self._read_columns(row), strict=False)))


def _attribute(model: Any, field: str) -> str:
    for name in (field, f"{field}_id"):
        if hasattr(model, name) or name in {each.name for each in fields(model)}:
            return name
    raise TypeError(f"{model.__name__} has no attribute for the field {field}: name one")
