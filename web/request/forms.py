"""Forms: from the bytes of either kind to named texts, and from these to what a schema expects."""

import re
from binascii import a2b_qp
from collections.abc import Iterable
from typing import Any

from marshmallow import Schema, fields

from web.errors import BadRequest, Invalid
from web.fields import ListOf, ObjectOf, Text
from web.request.files import FilePart, file_part
from web.request.json_text import MAX_VALUES, check_value_count, parse_json

MAX_FIELDS = 1000  # of a form, or of the object that a JSON body is
MAX_PART_HEAD_BYTES = 8192

BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
DISPOSITION = re.compile(rb"^content-disposition:[ \t]*form-data([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
PARAMETER = re.compile(  # browsers send a backslash in a name as it is, not as an escape
    rb';[ \t]*(?:name[ \t]*=[ \t]*(?:"([^"\r\n]*)"|([^\s;"]+))'
    rb'|[^\s;="]+[ \t]*=[ \t]*(?:"(?:[^"\\\r\n]|\\.)*"|[^\s;"]*))',
    re.IGNORECASE,
)

Pairs = list[tuple[str, str]]


def parse_urlencoded(raw: bytes) -> Pairs:
    """Return the fields of an `application/x-www-form-urlencoded` body. Raise BadRequest if it is broken."""
    if raw.count(b"&") >= MAX_FIELDS:
        raise BadRequest("Form parse error - too many fields")
    if BROKEN_ESCAPE.search(raw):
        raise BadRequest("Form parse error - there is a % without two hexadecimal digits")
    pairs = (pair.partition(b"=") for pair in raw.split(b"&") if pair)
    try:
        return [(unquote(name), unquote(text)) for name, _, text in pairs]
    except UnicodeDecodeError as error:
        raise BadRequest(f"Form parse error - {error}") from error


def unquote(text: bytes) -> str:
    """Undo the escapes of a form.

    Quoted-printable has the same escapes with another sign, and the standard library decodes it in C. Its
    urllib takes ten times as long over a megabyte of escapes.
    """
    return a2b_qp(text.replace(b"+", b" ").replace(b"=", b"=3D").replace(b"%", b"=")).decode()


def parse_multipart(raw: bytes, content_type: str, file_field: str = "") -> tuple[Pairs, list[FilePart]]:
    """Return the texts of a `multipart/form-data` body, and the files that are parts called `file_field`.

    Files of other names are texts. Raise BadRequest if the body is broken.
    """
    boundary = BOUNDARY.search(content_type)
    if boundary is None:
        raise BadRequest("Multipart form parse error - there is no boundary in the content type")
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode(errors="replace")
    _, *parts = (b"\r\n" + raw).split(delimiter, MAX_FIELDS + 2)
    if len(parts) > MAX_FIELDS + 1:
        raise BadRequest("Multipart form parse error - too many fields")
    if not parts or not parts.pop().startswith(b"--"):
        raise BadRequest("Multipart form parse error - the last boundary is missing")
    pairs: Pairs = []
    files: list[FilePart] = []
    for part in parts:
        name, content = _part(part, file_field)
        if isinstance(content, FilePart):
            files.append(content)
        else:
            pairs.append((name, content))
    return pairs, files


def _part(part: bytes, file_field: str) -> tuple[str, str | FilePart]:
    head, blank_line, content = part.partition(b"\r\n\r\n")
    if not blank_line or len(head) > MAX_PART_HEAD_BYTES:
        raise BadRequest("Multipart form parse error - a part has no headers, or too many")
    try:
        name = _part_name(head).decode()
        file = file_part(head, content) if name == file_field else None
        return name, content.decode() if file is None else file
    except UnicodeDecodeError as error:
        raise BadRequest(f"Multipart form parse error - {error}") from error


def _part_name(head: bytes) -> bytes:
    disposition = DISPOSITION.search(head)
    for parameter in PARAMETER.finditer(disposition[1]) if disposition else ():
        quoted, plain = parameter[1], parameter[2]
        if quoted is not None or plain is not None:
            return quoted if quoted is not None else plain
    raise BadRequest("Multipart form parse error - a part has no name")


def form_values(
    pairs: Iterable[tuple[str, str]], schema: Schema, *, blank_is_null: bool = True
) -> dict[str, Any]:
    """Return the values of a form or query by name, as its JSON would hold them.

    A field that is repeated is a list if the schema says so; otherwise its last text counts. A field that the
    schema does not know is a text. Raise Invalid for texts that should be JSON and are not.
    """
    known = {field.data_key or name: field for name, field in schema.load_fields.items()}
    values: dict[str, Any] = {}
    texts_by_name: dict[str, list[str]] = {}
    for name, text in pairs:
        if name in known:
            texts_by_name.setdefault(name, []).append(text)
        else:
            values[name] = text
    refused: dict[str, Any] = {}
    for name, texts in texts_by_name.items():
        try:
            values[name] = _field_value(known[name], texts, blank_is_null)
        except BadRequest as error:
            refused[name] = [str(error)]
        except Invalid as error:
            refused[name] = error.body
    if refused:
        raise Invalid(refused)
    return values


def _field_value(field: fields.Field[Any], texts: list[str], blank_is_null: bool) -> Any:
    """Return what the texts of a field mean. A single blank is an empty list, or null where allowed."""
    if isinstance(field, ListOf):
        return [] if blank_is_null and texts == [""] else _list_items(field, texts)
    text = texts[-1]
    if blank_is_null and not text and field.allow_none and not isinstance(field, Text):
        return None
    return parse_json(text.encode()) if isinstance(field, fields.Raw | ObjectOf) else text


def _list_items(field: ListOf[Any], texts: list[str]) -> list[Any]:
    if not isinstance(field.inner, ObjectOf):
        return texts
    raws = [text.encode() for text in texts]
    check_value_count(b",".join(raws), MAX_VALUES)
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
