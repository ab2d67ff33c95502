"""Answers from JSON, in the types of `models`. What a newer service adds is kept, never refused."""

import datetime as dt
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from keyword import iskeyword
from typing import Any, Union, get_args, get_origin, get_type_hints

Decoder = Callable[[Any], Any]


class Enumeration(str, Enum):
    """Values of the API. One that this version does not know is kept as it is."""

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def _missing_(cls, value: object) -> "Enumeration | None":
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = unknown._value_ = value
        return unknown


class Answer:
    """An answer of the API: a frozen dataclass, and the JSON that it was made of."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the service, with the fields that this version does not know."""
        return dict(self.__dict__["_received"])

    @property
    def unknown(self) -> dict[str, Any]:
        """Return the fields that this version of the client does not know."""
        known = {wire_name(field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in self.to_dict().items() if name not in known}


def wire_name(name: str) -> str:
    """Return the name in JSON of a field or parameter; `from_` stands for `from`."""
    return name[:-1] if name.endswith("_") and iskeyword(name[:-1]) else name


@cache
def decoder(kind: Any) -> Decoder:
    """Return the function that makes a value of this type from JSON. What does not fit stays as it is."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union_decoder(tuple(one for one in arguments if one is not types.NoneType))
    if origin is list:
        item = decoder(arguments[0])
        return lambda value: [item(one) for one in value] if isinstance(value, list) else value
    if isinstance(kind, type) and issubclass(kind, Enumeration):
        return lambda value: kind(value) if isinstance(value, str) else value
    if is_dataclass(kind):
        return _dataclass_decoder(kind)
    if kind in (dt.datetime, dt.date):
        return lambda value: kind.fromisoformat(value.replace("Z", "+00:00"))
    return lambda value: value


def _dataclass_decoder(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    names = [(field.name, wire_name(field.name)) for field in fields(kind)]

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        answer = object.__new__(kind)
        for name, wire in names:
            convert = decoder(hints[name])  # not earlier: a type may contain itself
            answer.__dict__[name] = None if value.get(wire) is None else convert(value[wire])
        answer.__dict__["_received"] = value
        return answer

    return decode


def _union_decoder(kinds: tuple[Any, ...]) -> Decoder:
    """Decode an object as the class whose fields differ least, and anything else as the first other type."""
    classes: list[Any] = [kind for kind in kinds if is_dataclass(kind)]
    names = {kind: {wire_name(field.name) for field in fields(kind)} for kind in classes}
    plain = next((decoder(kind) for kind in kinds if kind not in names), None)

    def decode(value: Any) -> Any:
        if isinstance(value, dict) and names:
            return decoder(min(names, key=lambda kind: len(names[kind] ^ value.keys())))(value)
        return plain(value) if plain else value

    return decode
