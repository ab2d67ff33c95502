"""JSON from clients: exact integers, no key twice in an object, a limit for depth and for values."""

import json
import re
from collections import Counter
from types import NoneType
from typing import Any

import orjson

from supervisors.client_values import MAX_DEPTH, OFF_LOOP_BYTES, has_more_values, is_deeper_than
from supervisors.client_values import MAX_VALUES as MAX_VALUES
from web.errors import BadRequest, TooLarge
from web.fields import printable

MAX_VALUES_OF_ITEMS = 200_000  # in a list of bodies, which a thread reads in about 30 ms
WHITESPACE = b" \t\n\r"
BLANKS = re.compile(r"[ \t\n\r]*")
SAFE = frozenset({str, int, bool, NoneType})  # types of values that both parsers read alike
TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"


def parse_json(raw: bytes, max_values: int = MAX_VALUES, max_items: int = 0) -> Any:
    """Return the JSON value. Raise BadRequest for text that is not JSON, TooLarge beyond `max_values` values.

    Both parsers are needed. orjson refuses NaN, infinities and lone surrogates, but rounds integers of more
    than 64 bits and drops duplicate keys; the standard library does the opposite.

    Of a long list with more than `max_items` items only the first of these are read: it will be refused.
    """
    if len(raw) > max_values:
        check_value_count(raw, max_values)
    try:
        if len(raw) > OFF_LOOP_BYTES and raw.lstrip(WHITESPACE).startswith(b"["):
            return _parse_long_list(raw.decode().lstrip(WHITESPACE.decode()), max_items)
        value = orjson.loads(raw)
        # An object with as many keys as there are colons has none twice, and both parsers read texts and the
        # like alike. A number that orjson has rounded is a float.
        is_flat = type(value) is dict and SAFE.issuperset(map(type, value.values()))
        if is_flat and len(value) == raw.count(b":"):
            return value
        text = raw.decode()
        _check_depth(value, text)
        return _DECODER.decode(text)
    except ValueError as error:
        raise BadRequest(f"JSON parse error - {error}") from error


def check_value_count(raw: bytes, max_values: int) -> None:
    """Raise TooLarge for JSON of more than `max_values` values."""
    if has_more_values(raw, max_values):
        raise TooLarge(f"The request body holds more than {max_values} values.")


def _parse_long_list(text: str, max_items: int) -> list[Any]:
    """Return the list that the text begins with. Raise ValueError if it is not JSON, or anything follows.

    Each item is parsed by itself: a parser keeps the event loop from running until it returns, also if it is
    called in another thread.
    """
    items: list[Any] = []
    start = _after_whitespace(text, 1)
    while not (text.startswith("]", start) and not items):
        try:
            item, end = _DECODER.raw_decode(text, start)
        except RecursionError as error:
            raise ValueError(TOO_DEEP) from error
        item_text = text[start:end]
        _check_depth(orjson.loads(item_text), item_text)
        items.append(item)
        if len(items) > max_items:
            return items
        start = _after_whitespace(text, end)
        if text.startswith("]", start):
            break
        if not text.startswith(",", start):
            raise ValueError(f"expected , or ] after an item of the list (char {start})")
        start = _after_whitespace(text, start + 1)
    if _after_whitespace(text, start + 1) < len(text):
        raise ValueError(f"unexpected content after the list (char {start + 1})")
    return items


def _after_whitespace(text: str, start: int) -> int:
    blanks = BLANKS.match(text, start)
    return blanks.end() if blanks else start


def _check_depth(body: Any, text: str) -> None:
    """Raise ValueError if the values in a body, or in the bodies of a list, are nested too deep.

    `text` is the JSON of the body.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH:  # so few brackets cannot be nested too deep
        return
    levels_around_values = 2 if isinstance(body, list) else 1
    if is_deeper_than(MAX_DEPTH + levels_around_values, body):
        raise ValueError(TOO_DEEP)


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f'duplicate key "{printable(next(key for key in counts if counts[key] > 1))}"')
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_to_object)
