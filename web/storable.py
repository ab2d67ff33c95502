"""Text and JSON values that PostgreSQL and every client can store unchanged."""

import math
import re
from typing import Any

import orjson
from marshmallow import ValidationError

from supervisors.client_values import MAX_DEPTH, layers

MIN_JSON_INTEGER = -(2**63)
MAX_JSON_INTEGER = 2**64 - 1

SURROGATE = re.compile(r"[\ud800-\udfff]")

NO_NULS = "Null characters are not allowed."
NO_SURROGATES = "Surrogate characters are not allowed."


def check_text(value: str) -> str:
    """Return the text. Raise ValidationError for characters that cannot be stored."""
    if "\x00" in value:
        raise ValidationError(NO_NULS)
    if not value.isascii() and SURROGATE.search(value):
        raise ValidationError(NO_SURROGATES)
    return value


def check_json(value: Any) -> None:
    """Raise ValidationError for a value that cannot be stored, or that is nested too deep."""
    if not _is_surely_storable(value):
        check_layers(value)


def check_layers(value: Any) -> None:
    """Check each layer of a value by itself, as `check_json` does for what it cannot decide quickly."""
    for depth, layer in enumerate(layers(value)):
        if depth > MAX_DEPTH:
            raise ValidationError(f"Nested deeper than {MAX_DEPTH} levels.")
        _check_scalars(layer)


def _is_surely_storable(value: Any) -> bool:
    """Return whether the JSON of the value shows that it can be stored; False if that takes a closer look.

    orjson refuses lone surrogates and integers of more than 64 bits, and writes NaN and infinities as null.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        return False
    may_be_too_deep = text.count(b"[") + text.count(b"{") > MAX_DEPTH
    return not (may_be_too_deep or b"null" in text or b"\\u0000" in text)


def _check_scalars(layer: list[Any]) -> None:
    check_text("".join([item for item in layer if isinstance(item, str)]))
    integers = [item for item in layer if isinstance(item, int)]
    if integers and not MIN_JSON_INTEGER <= min(integers) <= max(integers) <= MAX_JSON_INTEGER:
        raise ValidationError(f"Ensure integers are between {MIN_JSON_INTEGER} and {MAX_JSON_INTEGER}.")
    if not all(map(math.isfinite, [item for item in layer if isinstance(item, float)])):
        raise ValidationError("NaN and Infinity are not allowed.")
