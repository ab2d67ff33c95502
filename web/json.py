"""Responses in JSON: ids and instants as text, money as numbers."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
from aiohttp import web

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
