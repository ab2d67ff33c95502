"""From the bytes of a request to checked values: JSON, both kinds of forms, and query strings alike.

The framework's own decompression would also work on bodies that nobody reads.
"""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import AbstractContextManager, aclosing, nullcontext
from datetime import datetime, tzinfo
from typing import Any, NamedTuple, Self, TypeVar

from aiohttp import HttpVersion11, hdrs, web
from marshmallow import EXCLUDE, Schema, ValidationError, fields, missing

from supervisors.client_values import OFF_LOOP_BYTES
from web.app_keys import SETTINGS
from web.errors import ApiError, BadRequest, Invalid, TooLarge, UnsupportedMediaType
from web.fields import printable, to_utc
from web.request.chunks import OF_ANYBODY, OF_CALLERS, SmallChunks, read_pieces
from web.request.files import Files
from web.request.forms import MAX_FIELDS, form_values, parse_multipart, parse_urlencoded
from web.request.json_text import MAX_VALUES_OF_ITEMS, parse_json
from web.request.unknown_names import KnownFields, is_strict, note_unknown_fields
from web.request_room import PLACE, body_units

PLAIN = ("", "identity")
COMPRESSED = ("gzip", "x-gzip", "deflate")
CONTINUE = "100-continue"
TOO_LARGE = "The request body is too large."
WINDOW = zlib.MAX_WBITS + 32  # detects gzip or zlib by the first bytes
FORM_BYTES = 1_048_576  # of the values of a form, as JSON

Result = TypeVar("Result")


class BodyLimit(NamedTuple):
    """How many bytes a body may have in all, and how many of them its texts; the rest is for files."""

    bytes: int
    text_bytes: int


BODY_LIMIT = web.RequestKey("body_limit", BodyLimit)


def expected_bytes(request: web.Request) -> int:
    """Return how many bytes a body can have once it is decompressed."""
    length, most = request.content_length, request[BODY_LIMIT].bytes
    if length is None:
        return most if request.body_exists else 0
    is_plain = request.headers.get("Content-Encoding", "").strip().lower() in PLAIN
    return min(length, most) if is_plain or not length else most


def is_multipart(request: web.Request) -> bool:
    """Return whether the body is a form that may contain files."""
    return media_type(request.headers.get(hdrs.CONTENT_TYPE, "")) == "multipart/form-data"


def media_type(content_type: str) -> str:
    """Return a content type without its parameters; aiohttp parses these, in up to half a second."""
    return content_type.partition(";")[0].strip().lower()


def room_for_files(request: web.Request) -> AbstractContextManager[None]:
    """Hold memory for the files of a long form while the block runs, beside that for its body.

    Raise Unavailable if there is not enough.
    """
    expected = expected_bytes(request) if is_multipart(request) else 0
    return request[PLACE].more(body_units(expected)) if expected > OFF_LOOP_BYTES else nullcontext()


async def read_raw(request: web.Request) -> bytes:
    """Return the decompressed bytes of a body; their limit is that of a plain body.

    Raise BadRequest for a body that is late or broken, UnsupportedMediaType for another encoding, Unavailable
    if the room has been filled while the body arrived.
    """
    content, most = request.content, request[BODY_LIMIT].bytes
    try:
        is_chunked = hdrs.TRANSFER_ENCODING in request.headers
        if content.is_eof() and not is_chunked:  # most bodies arrive in one piece with their headers
            raw = content.read_nowait()
        else:
            if (request.content_length or 0) > most:
                raise TooLarge(TOO_LARGE)
            with request[PLACE].waiting_for_client() if PLACE in request else nullcontext():
                raw = await _arrived(request, most)
    except TimeoutError as error:
        seconds = request.app[SETTINGS].body_seconds
        raise BadRequest(f"The request body did not arrive within {seconds:g} seconds.") from error
    except SmallChunks as error:
        raise BadRequest(f"The request body {error}.") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BadRequest("The request body could not be read.") from error
    if len(raw) > most:
        raise TooLarge(TOO_LARGE)
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if not raw or encoding in PLAIN:
        return raw
    if encoding not in COMPRESSED:
        raise UnsupportedMediaType(f'Unsupported content encoding "{printable(encoding)}" in request.')
    return await asyncio.to_thread(_decompress, raw, encoding, most)


async def _arrived(request: web.Request, most: int) -> bytes:
    """Return the body once all of it has arrived, or as much as is too long.

    Raise SmallChunks; TimeoutError if that takes too long: the framework would wait for ever after a
    malformed chunk.
    """
    body = bytearray()
    pieces = read_pieces(request.content, OF_CALLERS if PLACE in request else OF_ANYBODY)
    async with asyncio.timeout(request.app[SETTINGS].body_seconds), aclosing(pieces):
        await _permit(request)
        async for piece in pieces:
            body += piece
            if len(body) > most:
                break
    return bytes(body)


async def check_expectation(request: web.Request) -> None:
    """Refuse an unknown expectation. A client that waits for permission gets it when its body is read.

    So a request that is refused before that costs no transfer.
    """
    if request.headers[hdrs.EXPECT].lower() != CONTINUE:
        raise web.HTTPExpectationFailed


async def _permit(request: web.Request) -> None:
    """Let a client that waits for permission send its body."""
    if hdrs.EXPECT in request.headers and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer has not begun


def _decompress(raw: bytes, encoding: str, most: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=WINDOW)
    try:
        body = decompressor.decompress(raw, most + 1)
    except zlib.error as error:
        raise BadRequest(f"The request body is not {encoding}.") from error
    if len(body) > most:
        raise TooLarge(TOO_LARGE)
    if not decompressor.eof or decompressor.unused_data:
        raise BadRequest(f"The request body is cut short, or goes on after its {encoding}.")
    return body


class _Expected(NamedTuple):
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
    """A request body or query; fields that it does not declare are ignored."""

    class Meta:
        unknown = EXCLUDE  # for nested schemas; `checked` looks at declared fields only

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._expected = tuple(_Expected.of(name, field) for name, field in self.load_fields.items())
        self.known = KnownFields.of(self)
        files = (name for name, field in self.load_fields.items() if isinstance(field, Files))
        self.file_field = next(files, "")

    def checked(self, values: Mapping[str, Any], *, partial: bool = False) -> dict[str, Any]:
        """Return the declared fields among `values`. Raise ValidationError if one of them is wrong.

        With `partial` nothing is required and nothing filled in. The result is that of marshmallow's `load`,
        whose support for hooks, nesting and dotted names takes longer than the fields themselves.
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


NO_FIELDS = Body()


class Expected(NamedTuple):
    """What the route of a request reads, and answers. For `is_partial` see `Body.checked`."""

    query: Body
    body: Body
    is_partial: bool
    max_items: int
    shown: Set[str]  # fields that the answers show, and so may be sent back
    status: int  # of a success


EXPECTED = web.RequestKey("expected", Expected)


async def read_body(request: web.Request, schema: Body | None = None) -> dict[str, Any]:
    """Return the checked fields of a request's body, by the schema of its route unless another is given."""
    expected = request[EXPECTED]
    body = schema or expected.body
    return await read_converted(
        request, body, lambda values: body.checked(values, partial=expected.is_partial)
    )


async def read_values(request: web.Request, schema: Body) -> dict[str, Any]:
    """Return the values of a request's body, not yet checked."""
    return await read_converted(request, schema, lambda values: values)


async def read_converted(request: web.Request, schema: Body, convert: Callable[[Any], Result]) -> Result:
    """Return what `convert` makes of a body's values; it is called in a thread if the body is long."""
    expected = request[EXPECTED]

    def read(raw: bytes) -> Result:
        content_type, most = request.headers.get("Content-Type", ""), request[BODY_LIMIT].text_bytes
        values = parse_body(raw, content_type, schema, most, expected.max_items)
        note_unknown_fields(request, schema.known, values, expected.shown)
        return convert(values)

    return await read_bytes(request, read)


async def read_bytes(request: web.Request, read: Callable[[bytes], Result]) -> Result:
    """Return what `read` makes of a body's bytes; it is called in a thread if the body is long.

    Long bodies take turns, by organization, because many threads at once would hold up the event loop as
    well. The room for those that wait or arrive is limited. Bodies of public routes are never long.
    """
    size = expected_bytes(request)
    if size <= OFF_LOOP_BYTES:  # the number of connections limits their memory
        return read(await read_raw(request))
    with request[PLACE].more(body_units(size)):
        raw = await read_raw(request)
        if len(raw) <= OFF_LOOP_BYTES:
            return read(raw)
        async with request[PLACE].parsing():
            return await asyncio.to_thread(read, raw)


async def note_fields(request: web.Request) -> None:
    """Note the fields of a body that the route does not read. Raise Invalid if the request is strict.

    A body that is long, late or broken is left alone: it has no effect.
    """
    request[BODY_LIMIT] = BodyLimit(OFF_LOOP_BYTES, OFF_LOOP_BYTES)
    try:
        await read_values(request, NO_FIELDS)
    except Invalid:
        if is_strict(request):
            raise
    except ApiError:
        pass


def read_query(request: web.Request) -> dict[str, Any]:
    """Return the checked parameters of a request's query, by the schema of its route."""
    schema = request[EXPECTED].query
    return schema.checked(form_values(request.query.items(), schema, blank_is_null=False))


def parse_body(
    raw: bytes, content_type: str, schema: Body, max_bytes: int = FORM_BYTES, max_items: int = 0
) -> Any:
    """Return the same values whether they came as JSON or a form. Raise ApiError if they cannot be read.

    With `max_items` the JSON may also be a list of so many items, not yet checked; a form is a single item.
    Raise TooLarge for a form whose values take more than `max_bytes` as JSON: an answer will write them so.
    """
    if not raw:
        return {}
    match media_type(content_type):
        case "application/json" if max_items:
            return parse_json(raw, MAX_VALUES_OF_ITEMS, max_items)
        case "application/json":
            return _as_object(parse_json(raw))
        case "application/x-www-form-urlencoded":
            return _limited(form_values(parse_urlencoded(raw), schema), max_bytes)
        case "multipart/form-data":
            pairs, files = parse_multipart(raw, content_type, schema.file_field)
            values = _limited(form_values(pairs, schema), max_bytes)
            return {**values, schema.file_field: files} if files else values
        case other:
            raise UnsupportedMediaType(f'Unsupported media type "{printable(other)}" in request.')


def check_items(
    value: Any, schema: Body, max_items: int, prepare: Callable[[dict[str, Any]], None]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the checked items of a body and whether it is a list of them or a single item.

    `prepare` may refuse or change each item. Raise Invalid if one is wrong.
    """
    is_list = isinstance(value, list)
    items = _checked_items(value, schema, max_items) if is_list else [schema.checked(_as_object(value))]
    for item in items:
        prepare(item)
    return items, is_list


def _checked_items(values: list[Any], schema: Body, max_items: int) -> list[dict[str, Any]]:
    if len(values) > max_items:
        message = f"Ensure this field has no more than {max_items} elements."
        raise Invalid({"non_field_errors": [message]})
    items: list[dict[str, Any]] = []
    refused: dict[str, Any] = {}
    for index, value in enumerate(values):
        try:
            items.append(schema.checked(_as_object(value)))
        except ValidationError as error:
            refused[str(index)] = Invalid(error.messages_dict).body
        except Invalid as error:
            refused[str(index)] = error.body
    if refused:
        raise Invalid(refused)
    return items


def _as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise Invalid({"non_field_errors": [f"Invalid data. Expected a dictionary, but got {kind}."]})
    if len(value) > MAX_FIELDS:
        raise BadRequest("JSON parse error - too many fields")
    return value


def _limited(values: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """Return the values of a form. Raise TooLarge if they take more bytes as JSON, which escapes some."""
    if len(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()) > max_bytes:
        raise TooLarge(f"The request body takes more than {max_bytes} bytes as JSON.")
    return values


def localize(body: dict[str, Any], names: Iterable[str], zone: tzinfo) -> None:
    """Convert the datetimes of these fields that came without an offset to UTC, in place."""
    for name in names:
        moment = body.get(name)
        if isinstance(moment, datetime) and moment.tzinfo is None:
            try:
                body[name] = to_utc(moment, zone)
            except ValidationError as error:
                raise Invalid({name: error.messages}) from error
