"""From the bytes of a request to checked values: JSON, both kinds of forms, and query strings alike."""

import asyncio
import json
import re
from binascii import a2b_qp
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import orjson
from aiohttp import web
from marshmallow import EXCLUDE, INCLUDE, Schema, ValidationError, fields, missing

from web.app_keys import BODY_TURN
from web.errors import BadRequest, Invalid, TooLarge, UnsupportedMediaType
from web.fields import MAX_DEPTH, ListOf, ObjectOf, Text, layers, shown
from web.request.body import read_raw

MAX_VALUES = 50_000  # in a body; checking so many takes about as long as anybody else may have to wait
MAX_VALUES_OF_ITEMS = 200_000  # in a list of bodies, which is read in a thread; to read so many takes 30 ms
MAX_FIELDS = 1000  # of a form, or of the object that a JSON body is
MAX_PART_HEAD_BYTES = 8192
OFF_LOOP_BYTES = 32_768  # bodies beyond that are read in a thread, so that they hold nobody up

DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
LONG_NUMBER = b"0" * 19
BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
PARAMETER = re.compile(  # a backslash in the name is just that, as browsers send it
    rb';[ \t]*(?:name[ \t]*=[ \t]*(?:"([^"\r\n]*)"|([^\s;"]+))'
    rb'|[^\s;="]+[ \t]*=[ \t]*(?:"(?:[^"\\\r\n]|\\.)*"|[^\s;"]*))',
    re.IGNORECASE,
)

Read = TypeVar("Read")


class Expected(NamedTuple):
    """A field of a body: its names in code and body, its check, and what holds if it is left out."""

    name: str
    key: str
    check: Callable[[Any, str, Mapping[str, Any]], Any]
    refusal: Any  # None if it may be left out
    default: Any

    @classmethod
    def of(cls, name: str, field: fields.Field[Any]) -> Self:
        refusal = field.error_messages["required"] if field.required else None
        return cls(name, field.data_key or name, field.deserialize, refusal, field.load_default)


class Body(Schema):
    """A request body or query; what it does not name is ignored."""

    class Meta:
        unknown = EXCLUDE  # for what is nested; `checked` looks at nothing else anyway

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._expected = tuple(Expected.of(name, field) for name, field in self.load_fields.items())

    def checked(self, values: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
        """The fields among `values`; with `partial` nothing is required and nothing filled in.

        Raises ValidationError. What marshmallow's `load` does for nested schemas is left out: every request
        comes through here, and it costs more than the fields do.
        """
        checked: dict[str, Any] = {}
        messages: dict[str, Any] = {}
        for name, key, check, refusal, default in self._expected:
            if key in values:
                try:
                    checked[name] = check(values[key], key, values)
                except ValidationError as error:
                    messages[key] = error.messages
            elif partial:
                continue
            elif refusal is not None:
                messages[key] = [refusal]
            elif default is not missing:
                checked[name] = default() if callable(default) else default
        if messages:
            raise ValidationError(messages)
        self.check_together(checked)
        return checked

    def check_together(self, checked: Mapping[str, Any]) -> None:
        """Raise ValidationError if fields that are right by themselves do not go together."""


async def read_body(request: web.Request, schema: Body, *, partial: bool = False) -> dict[str, Any]:
    """The checked fields of a request's body; with `partial` nothing is required and nothing filled in."""

    def read(raw: bytes) -> dict[str, Any]:
        return check_body(parse_body(raw, content_type, schema), schema, partial=partial)

    content_type = request.headers.get("Content-Type", "")
    return await _read(request, read)


async def read_values(request: web.Request, schema: Body) -> dict[str, Any]:
    """What a request's body says, as yet unchecked."""
    content_type = request.headers.get("Content-Type", "")
    return await _read(request, lambda raw: parse_body(raw, content_type, schema))


async def read_items(
    request: web.Request, schema: Body, most: int, prepare: Callable[[dict[str, Any]], None]
) -> tuple[list[dict[str, Any]], bool]:
    """The items of a body: one of them, or a list of at most `most`; and whether it is a list.

    Items that fit the schema are given to `prepare`, which may refuse or change them, and has no loop.
    """
    content_type = request.headers.get("Content-Type", "")
    return await _read(request, lambda raw: parse_items(raw, content_type, schema, most, prepare))


async def _read(request: web.Request, read: Callable[[bytes], Read]) -> Read:
    """What is read from the bytes of a body. Long ones take turns: threads hold the loop up, too, if many."""
    raw = await read_raw(request)
    if len(raw) <= OFF_LOOP_BYTES:
        return read(raw)
    async with request.app[BODY_TURN]:
        return await asyncio.to_thread(read, raw)


def check_body(values: Mapping[str, Any], schema: Body, *, partial: bool = False) -> dict[str, Any]:
    """The checked fields among the values of a body."""
    return schema.checked(values, partial=partial)


def read_query(request: web.Request, schema: Body) -> dict[str, Any]:
    """The checked parameters of a request's query."""
    return schema.checked(_gather(request.query.items(), schema, blank_is_null=False))


def parse_body(raw: bytes, content_type: str, schema: Body) -> dict[str, Any]:
    """The same values whatever way they were written; the schema says what in a form is a list or JSON."""
    return _as_object(_parse(raw, content_type, schema))


def parse_items(
    raw: bytes, content_type: str, schema: Body, most: int, prepare: Callable[[dict[str, Any]], None]
) -> tuple[list[dict[str, Any]], bool]:
    """As `read_items`; a form is one item."""
    items, is_list = _items(_parse(raw, content_type, schema, MAX_VALUES_OF_ITEMS), schema, most)
    for item in items:
        prepare(item)
    return items, is_list


def _items(value: Any, schema: Body, most: int) -> tuple[list[dict[str, Any]], bool]:
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
    if len(value) > MAX_FIELDS:
        raise BadRequest("JSON parse error - too many fields")
    return value


def _parse(raw: bytes, content_type: str, schema: Body, max_values: int = MAX_VALUES) -> Any:
    if not raw:
        return {}
    match content_type.partition(";")[0].strip().lower():
        case "application/json":
            return parse_json(raw, max_values)
        case "application/x-www-form-urlencoded":
            return _gather(_urlencoded(raw), schema)
        case "multipart/form-data":
            return _gather(_multipart(raw, content_type), schema)
        case other:
            raise UnsupportedMediaType(f'Unsupported media type "{shown(other)}" in request.')


def parse_json(raw: bytes, max_values: int = MAX_VALUES) -> Any:
    """The JSON value, every integer exact and no key written twice in one object.

    orjson turns integers of more than 64 bits into floats; bodies that may hold one are read once more.
    """
    _refuse_crowd(raw, max_values)
    try:
        value = orjson.loads(raw)
        if raw.count(b"[") + (objects := raw.count(b"{")) > MAX_DEPTH:
            _check_depth(value)
        keys = len(value) if objects == 1 and isinstance(value, dict) else _keys(value)
        if raw.count(b":") != keys:
            _refuse_duplicates(raw, keys)
        return json.loads(raw) if LONG_NUMBER in raw.translate(DIGITS_AS_ZEROS) else value
    except ValueError as error:
        raise BadRequest(f"JSON parse error - {error}") from error


def _refuse_crowd(raw: bytes, most: int = MAX_VALUES) -> None:
    """TooLarge for JSON of too many values, before anything looks at each of them.

    What is counted are the signs between values, so a list or object that is empty counts twice. Those in
    texts count only at first, as it is seldom worth while to leave them out.
    """
    if len(raw) <= most or _signs(raw) <= most:
        return
    unescaped = _without_escapes(raw)
    has_too_many_texts = unescaped.count(b'"') > 4 * most  # each value may have a key
    if has_too_many_texts or _signs(_between_texts(unescaped)) > most:
        raise TooLarge(f"The request body holds more than {most} values.")


def _signs(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def _without_escapes(raw: bytes) -> bytes:
    """JSON in which each quotation mark begins or ends a text."""
    return raw.replace(b"\\\\", b"").replace(b'\\"', b"")


def _between_texts(unescaped: bytes) -> bytes:
    return b"".join(unescaped.split(b'"')[::2])


def _keys(value: Any) -> int:
    """How many keys all objects in a value have."""
    count = 0
    found = [value]
    for each in found:  # which grows meanwhile
        if isinstance(each, dict):
            count += len(each)
            found += each.values()
        elif isinstance(each, list):
            found += each
    return count


def _refuse_duplicates(raw: bytes, keys: int) -> None:
    """ValueError for JSON of which so many keys were read, if more were written: something would be lost.

    A colon follows each key, others stand in texts. If keys are missing, a second reading finds one of them.
    """
    if _between_texts(_without_escapes(raw)).count(b":") != keys:
        json.loads(raw, object_pairs_hook=_refuse_duplicate)


def _refuse_duplicate(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f'duplicate key "{shown(key)}"')
        seen.add(key)


def _check_depth(body: Any) -> None:
    """The body itself is one level more than the values in it; a list of bodies is another."""
    most = MAX_DEPTH + (2 if isinstance(body, list) else 1)
    if any(depth > most for depth, _ in enumerate(layers(body))):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _gather(pairs: Iterable[tuple[str, str]], schema: Body, *, blank_is_null: bool = True) -> dict[str, Any]:
    """A form's or query's fields by name: repeated ones of a list together, of anything else the last."""
    known = {field.data_key or name: field for name, field in schema.load_fields.items()}
    values: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    for name, text in pairs:
        if name in known:
            texts.setdefault(name, []).append(text)
        elif schema.unknown == INCLUDE:
            values[name] = text
    refused: dict[str, Any] = {}
    for name, each in texts.items():
        try:
            values[name] = _of_texts(known[name], each, blank_is_null)
        except BadRequest as error:
            refused[name] = [str(error)]
        except Invalid as error:
            refused[name] = error.body
    if refused:
        raise Invalid(refused)
    return values


def _of_texts(field: fields.Field[Any], texts: list[str], blank_is_null: bool) -> Any:
    """What a field's texts mean; a single blank one is an empty list, or null where that is allowed."""
    if isinstance(field, ListOf):
        return [] if blank_is_null and texts == [""] else _items_of_texts(field, texts)
    text = texts[-1]
    if blank_is_null and not text and field.allow_none and not isinstance(field, Text):
        return None
    return parse_json(text.encode()) if isinstance(field, fields.Raw) else text


def _items_of_texts(field: ListOf[Any], texts: list[str]) -> list[Any]:
    if not isinstance(field.inner, ObjectOf):
        return texts
    raws = [text.encode() for text in texts]
    _refuse_crowd(b",".join(raws))
    items: list[Any] = []
    refused: dict[str, Any] = {}
    for index, raw in enumerate(raws):
        try:
            items.append(parse_json(raw))
        except BadRequest as error:
            refused[str(index)] = [str(error)]
    if refused:
        raise Invalid(refused)
    return items


def _urlencoded(raw: bytes) -> list[tuple[str, str]]:
    if raw.count(b"&") >= MAX_FIELDS:
        raise BadRequest("Form parse error - too many fields")
    if BROKEN_ESCAPE.search(raw):
        raise BadRequest("Form parse error - there is a % without two hexadecimal digits")
    pairs = (pair.partition(b"=") for pair in raw.split(b"&") if pair)
    try:
        return [(_unescaped(name), _unescaped(text)) for name, _, text in pairs]
    except UnicodeDecodeError as error:
        raise BadRequest(f"Form parse error - {error}") from error


def _unescaped(text: bytes) -> str:
    """The text that was escaped for a form.

    Quoted-printable has the same escapes with another sign, and is read in C: urllib takes so long over each
    that a megabyte of them would hold others up.
    """
    return a2b_qp(text.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"=")).decode()


def _multipart(raw: bytes, content_type: str) -> list[tuple[str, str]]:
    """The named parts of a form; a part that came as a file counts as its text."""
    boundary = BOUNDARY.search(content_type)
    if boundary is None:
        raise BadRequest("Multipart form parse error - there is no boundary in the content type")
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode(errors="replace")
    _, *parts = (b"\r\n" + raw).split(delimiter)
    if not parts or not parts.pop().startswith(b"--"):
        raise BadRequest("Multipart form parse error - the last boundary is missing")
    if len(parts) > MAX_FIELDS:
        raise BadRequest("Multipart form parse error - too many fields")
    return [_part(part) for part in parts]


def _part(part: bytes) -> tuple[str, str]:
    head, blank_line, content = part.partition(b"\r\n\r\n")
    if not blank_line or len(head) > MAX_PART_HEAD_BYTES:
        raise BadRequest("Multipart form parse error - a part has no headers, or too many")
    try:
        return _part_name(head).decode(), content.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"Multipart form parse error - {error}") from error


def _part_name(head: bytes) -> bytes:
    disposition = DISPOSITION.search(head)
    for parameter in PARAMETER.finditer(disposition[1]) if disposition else ():
        quoted, plain = parameter[1], parameter[2]
        if quoted is not None or plain is not None:
            return quoted if quoted is not None else plain
    raise BadRequest("Multipart form parse error - a part has no name")
