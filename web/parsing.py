"""From the bytes of a request to checked values: JSON, both kinds of forms, and query strings alike."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from email import message_from_bytes
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

import orjson
from aiohttp import web
from marshmallow import EXCLUDE, Schema, ValidationError, fields, missing

from web.errors import BadRequest, Invalid, UnsupportedMediaType
from web.fields import MOST_DEPTH, ListOf, ObjectOf, Text, shown, walk

MOST_FORM_FIELDS = 1000
MOST_PART_HEAD_BYTES = 8192
OFF_LOOP_BYTES = 262_144  # bodies beyond that are checked in a thread, so that they hold nobody up
LONG_NUMBER = re.compile(rb"[0-9]{19}")


class Body(Schema):
    """A request body or query; what it does not name is ignored."""

    class Meta:
        unknown = EXCLUDE  # for what is nested; `checked` looks at nothing else anyway

    def checked(self, values: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
        """The fields among `values`; with `partial` nothing is required and nothing filled in.

        Raises ValidationError. What marshmallow's `load` does for nested schemas is left out: every request
        comes through here, and it costs more than the fields do.
        """
        checked: dict[str, Any] = {}
        messages: dict[str, Any] = {}
        for name, field in self.load_fields.items():
            key = field.data_key or name
            if key in values:
                try:
                    checked[name] = field.deserialize(values[key], key, values)
                except ValidationError as error:
                    messages[key] = error.messages
            elif field.required and not partial:
                messages[key] = [field.error_messages["required"]]
            elif field.load_default is not missing and not partial:
                default = field.load_default
                checked[name] = default() if callable(default) else default
        if messages:
            raise ValidationError(messages)
        self.check_together(checked)
        return checked

    def check_together(self, checked: Mapping[str, Any]) -> None:
        """Raise ValidationError if fields that are right by themselves do not go together."""


async def read_body(request: web.Request, schema: Body, *, partial: bool = False) -> dict[str, Any]:
    """The checked fields of a request's body; with `partial` nothing is required and nothing filled in."""
    return check_body(await read_values(request, schema), schema, partial=partial)


async def read_values(request: web.Request, schema: Body) -> dict[str, Any]:
    """What a request's body says, as yet unchecked."""
    return parse_body(await request.read(), request.headers.get("Content-Type", ""), schema)


async def read_items(request: web.Request, schema: Body, most: int) -> tuple[list[dict[str, Any]], bool]:
    """The checked items of a body: one of them, or a list of at most `most`; and whether it is a list."""
    raw, content_type = await request.read(), request.headers.get("Content-Type", "")
    if len(raw) > OFF_LOOP_BYTES:
        return await asyncio.to_thread(parse_items, raw, content_type, schema, most)
    return parse_items(raw, content_type, schema, most)


def check_body(values: Mapping[str, Any], schema: Body, *, partial: bool = False) -> dict[str, Any]:
    """The checked fields among the values of a body."""
    return schema.checked(values, partial=partial)


def read_query(request: web.Request, schema: Body) -> dict[str, Any]:
    """The checked parameters of a request's query."""
    return schema.checked(_gather(request.query.items(), schema, blank_is_null=False))


def parse_body(raw: bytes, content_type: str, schema: Body) -> dict[str, Any]:
    """The same values whatever way they were written; the schema says what in a form is a list or JSON."""
    return _as_object(_parse(raw, content_type, schema))


def parse_items(raw: bytes, content_type: str, schema: Body, most: int) -> tuple[list[dict[str, Any]], bool]:
    """As `read_items`; a form is one item."""
    value = _parse(raw, content_type, schema)
    if not isinstance(value, list):
        return [check_body(_as_object(value), schema)], False
    if len(value) > most:
        raise Invalid({"non_field_errors": [f"Ensure this field has no more than {most} elements."]})
    items: list[dict[str, Any]] = []
    refused: dict[str, Any] = {}
    for index, item in enumerate(value):
        try:
            items.append(check_body(_as_object(item), schema))
        except ValidationError as error:
            refused[str(index)] = Invalid(error.messages_dict).body
        except Invalid as error:
            refused[str(index)] = error.body
    if refused:
        raise Invalid(refused)
    return items, True


def _as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise Invalid({"non_field_errors": [f"Invalid data. Expected a dictionary, but got {kind}."]})
    return value


def _parse(raw: bytes, content_type: str, schema: Body) -> Any:
    if not raw:
        return {}
    match content_type.partition(";")[0].strip().lower():
        case "application/json":
            return parse_json(raw)
        case "application/x-www-form-urlencoded":
            return _gather(_urlencoded(raw), schema)
        case "multipart/form-data":
            return _gather(_multipart(raw, content_type), schema)
        case other:
            raise UnsupportedMediaType(f'Unsupported media type "{shown(other)}" in request.')


def parse_json(raw: bytes) -> Any:
    """The JSON value, every integer exact.

    orjson turns integers of more than 64 bits into floats; bodies that may hold one are read once more.
    """
    try:
        value = orjson.loads(raw)
        if raw.count(b"[") + raw.count(b"{") > MOST_DEPTH:
            _check_depth(value)
        return json.loads(raw) if LONG_NUMBER.search(raw) else value
    except ValueError as error:
        raise BadRequest(f"JSON parse error - {error}") from error


def _check_depth(body: Any) -> None:
    """The body itself is one level more than the values in it; a list of bodies is another."""
    most = MOST_DEPTH + (2 if isinstance(body, list) else 1)
    if any(depth > most for _, depth in walk(body)):
        raise ValueError(f"nested deeper than {MOST_DEPTH} levels")


def _gather(pairs: Iterable[tuple[str, str]], schema: Body, *, blank_is_null: bool = True) -> dict[str, Any]:
    """A form's or query's fields by name: repeated ones of a list together, of anything else the last."""
    known = {field.data_key or name: field for name, field in schema.load_fields.items()}
    gathered: dict[str, Any] = {}
    for name, text in pairs:
        field = known.get(name)
        if isinstance(field, ListOf):
            item = parse_json(text.encode()) if isinstance(field.inner, ObjectOf) else text
            gathered.setdefault(name, []).append(item)
        elif isinstance(field, fields.Raw):
            gathered[name] = parse_json(text.encode())
        elif field is not None:
            is_null = blank_is_null and not text and field.allow_none and not isinstance(field, Text)
            gathered[name] = None if is_null else text
    return gathered


def _urlencoded(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FORM_FIELDS
        )
    except ValueError as error:
        raise BadRequest(f"Form parse error - {error}") from error


def _multipart(raw: bytes, content_type: str) -> list[tuple[str, str]]:
    """The named parts of a form; a part that came as a file counts as its text."""
    head = Message()
    head["Content-Type"] = content_type
    boundary = head.get_boundary()
    if not boundary:
        raise BadRequest("Multipart form parse error - there is no boundary in the content type")
    _, *parts = (b"\r\n" + raw).split(b"\r\n--" + boundary.encode(errors="replace"))
    if not parts or not parts.pop().startswith(b"--"):
        raise BadRequest("Multipart form parse error - the last boundary is missing")
    if len(parts) > MOST_FORM_FIELDS:
        raise BadRequest("Multipart form parse error - too many fields")
    return [_part(part) for part in parts]


def _part(part: bytes) -> tuple[str, str]:
    head, blank_line, content = part.partition(b"\r\n\r\n")
    if not blank_line or len(head) > MOST_PART_HEAD_BYTES:
        raise BadRequest("Multipart form parse error - a part has no headers, or too many")
    name = message_from_bytes(head.lstrip()).get_param("name", header="Content-Disposition")
    if not isinstance(name, str):
        raise BadRequest("Multipart form parse error - a part has no name")
    try:
        return name, content.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"Multipart form parse error - {error}") from error
