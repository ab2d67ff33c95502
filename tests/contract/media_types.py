"""A request's body in each media type that the service accepts."""

import json
from typing import Any

import aiohttp
from marshmallow import fields

from tests.contract.tenants import Request
from web.fields import ListOf, ObjectOf


def named_fields(schema: Any) -> dict[str, fields.Field[Any]]:
    return {each.data_key or name: each for name, each in schema.load_fields.items()}


def as_json(request: Request) -> dict[str, Any]:
    return {"json": request.body}


def as_urlencoded(request: Request) -> dict[str, Any]:
    return {"data": aiohttp.FormData(form_of(request))}


def as_multipart(request: Request) -> dict[str, Any]:
    return {"data": aiohttp.FormData(form_of(request), default_to_multipart=True)}


def form_of(request: Request) -> list[tuple[str, str]]:
    """Return the pairs of a form with the same meaning."""
    known = named_fields(request.route.body) if request.route.body else {}
    pairs: list[tuple[str, str]] = []
    for name, value in (request.body or {}).items():
        each = known.get(name)
        if isinstance(each, ListOf):
            is_json = isinstance(each.inner, ObjectOf)
            pairs += [(name, json.dumps(item) if is_json else item) for item in value]
        elif isinstance(each, fields.Raw | ObjectOf):
            pairs.append((name, json.dumps(value)))
        else:
            pairs.append((name, "" if value is None else str(value)))
    return pairs
