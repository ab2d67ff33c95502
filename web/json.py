"""Answers in JSON: which attributes they show, and how values are written: ids and instants as text."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar, cast, get_type_hints
from uuid import UUID

import orjson
from aiohttp import web
from asyncpg import Record

from storage.postgres.json_values import EncodedJson
from supervisors.text import format_timestamp

MAX_ANSWER_BYTES = 1_048_576  # of a page; its first item may be longer
JSON_TYPE = "application/json"
EXACT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS
# A text that ends like a datetime without microseconds. The pattern looks back last, because the bytes with
# which it begins are searched for very fast.
NO_FRACTION = re.compile(rb'Z"(?<!\..{6}Z")', re.DOTALL)


def to_json(value: Any) -> bytes:
    """Write plain values, dataclasses, ids, amounts and datetimes in UTC as JSON.

    orjson writes datetimes much faster itself, but leaves out microseconds that are 0. So it does again what
    may contain such a datetime, or keys that are not texts.
    """
    try:
        text = orjson.dumps(value, default=_plain, option=orjson.OPT_UTC_Z)
    except TypeError:
        return _to_exact_json(value)
    return _to_exact_json(value) if NO_FRACTION.search(text) else text


def _to_exact_json(value: Any) -> bytes:
    return orjson.dumps(value, default=_plain, option=EXACT)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    headers = {**(headers or {}), "Content-Type": JSON_TYPE}
    return web.Response(body=to_json(value), status=status, headers=headers)


def fit(items: Iterable[Any], max_bytes: int) -> list[Any]:
    """Return as many of the first items as take at most `max_bytes` in an array, at least one.

    They are returned as finished JSON, so that each is written once.
    """
    fragments: list[Any] = []
    size = 1
    for item in items:
        text = to_json(item)
        size += len(text) + 1
        if fragments and size > max_bytes:
            break
        fragments.append(orjson.Fragment(text))
    return fragments


def _plain(value: object) -> str | float | orjson.Fragment:
    if isinstance(value, UUID):  # a subclass: orjson writes only the exact type itself
        return str(value)
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, EncodedJson):
        return orjson.Fragment(value.text)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


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
