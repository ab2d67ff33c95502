"""JSON from clients: exact integers, no key twice in an object, a limit for depth and for values."""

import json
from collections import Counter
from typing import Any

import orjson

from supervisors.json_limits import MAX_DEPTH, is_deeper_than
from web.errors import BadRequest
from web.fields import printable
from web.request.value_limit import MAX_VALUES, check_value_count


def parse_json(raw: bytes, max_values: int = MAX_VALUES) -> Any:
    """Return the JSON value. Raise BadRequest for text that is not JSON, TooLarge beyond `max_values` values.

    Both parsers are needed. orjson refuses NaN, infinities and lone surrogates, but rounds integers of more
    than 64 bits and drops duplicate keys; the standard library does the opposite.
    """
    check_value_count(raw, max_values)
    try:
        value = orjson.loads(raw)
        if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:  # fewer brackets cannot be nested too deep
            _check_depth(value)
        return _DECODER.decode(raw.decode())
    except ValueError as error:
        raise BadRequest(f"JSON parse error - {error}") from error


def _check_depth(body: Any) -> None:
    """Raise ValueError if the values in a body, or in the bodies of a list, are nested too deep."""
    levels_around_values = 2 if isinstance(body, list) else 1
    if is_deeper_than(MAX_DEPTH + levels_around_values, body):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f'duplicate key "{printable(next(key for key in counts if counts[key] > 1))}"')
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_to_object)
