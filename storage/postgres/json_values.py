"""JSON columns: short values are decoded, long ones stay text, because most of them are only passed on.

Decoding and encoding a megabyte of JSON would hold up the event loop for tens of milliseconds.
"""

from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

MAX_DECODED_BYTES = 32_768


class EncodedJson:
    """A long JSON value as its text, which `to_json` writes. No dataclass: orjson would write its fields."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodedJson) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def to_json(value: Any) -> bytes:
    """Return the JSON text of a value. asyncpg's UUIDs are of a subclass that orjson itself refuses."""
    return orjson.dumps(value, default=_plain)


def from_json(text: bytes) -> Any:
    """Return the value of a JSON column, as EncodedJson if its text is long."""
    if len(text) <= MAX_DECODED_BYTES or b"\n" in text:  # a text by another program; ours are one line
        return orjson.loads(text)
    return EncodedJson(bytes(text))


def decoded(value: Any) -> Any:
    """Return the value of a JSON column in any case, for columns that are worked with."""
    return orjson.loads(value.text) if isinstance(value, EncodedJson) else value


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"  # the text of a bytea, for rows that are handed over as JSON
    if isinstance(value, Decimal):
        return str(value)  # exactly, unlike a float
    if isinstance(value, EncodedJson):
        return orjson.Fragment(value.text)
    raise TypeError(f"{type(value).__name__} has no JSON form")
