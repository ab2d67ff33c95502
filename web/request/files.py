"""Files in multipart forms: their names, the types they may be stored as, their content, and their field."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from marshmallow import ValidationError, fields

from web.errors import BadRequest
from web.fields import printable, wording

BINARY = "application/octet-stream"
SNIFFED_BYTES = 1024
MAX_FILES = 20
MAX_NAME_LENGTH = 255

FILE_NAME = re.compile(rb';[ \t]*filename[ \t]*=[ \t]*(?:"([^"\r\n]*)"|([^\s;"]+))', re.IGNORECASE)
PART_TYPE = re.compile(rb"^content-type:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
CONTENT_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
FOLDERS = re.compile(r"[/\\]")

# The first bytes of the types that programs open without asking.
SIGNATURES: dict[str, re.Pattern[bytes]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "application/pdf": re.compile(rb".{0,1019}%PDF-", re.DOTALL),
}


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file as a client sent it."""

    name: str
    content_type: str
    content: bytes = field(repr=False)

    def digest(self) -> list[str]:
        """Return a short value that is the same for the same file."""
        return [self.name, self.content_type, hashlib.sha256(self.content).hexdigest()]


def file_part(head: bytes, content: bytes) -> FilePart | None:
    """Return the file in a part of a form, None if the part has no file name and so is a text.

    Raise BadRequest for a name that is not UTF-8.
    """
    name = FILE_NAME.search(head)
    if name is None:
        return None
    declared = PART_TYPE.search(head)
    try:
        text = (name[1] if name[1] is not None else name[2]).decode()
        content_type = declared[1].decode() if declared else BINARY
    except UnicodeDecodeError as error:
        raise BadRequest(f"Multipart form parse error - {error}") from error
    return FilePart(_plain_name(text), content_type.partition(";")[0].strip().lower(), content)


def stored_type(part: FilePart) -> str | None:
    """Return the type that the file is stored as; None if the declared one is malformed.

    A declared type that the content contradicts is replaced by that of arbitrary bytes.
    """
    if not CONTENT_TYPE.fullmatch(part.content_type):
        return None
    start, signature = part.content[:SNIFFED_BYTES], SIGNATURES.get(part.content_type)
    is_contradicted = (signature is not None and not signature.match(start)) or (
        part.content_type.startswith("text/") and b"\0" in start
    )
    return BINARY if is_contradicted else part.content_type


def encode_for_hash(value: Any) -> Any:
    """Return what stands for a file where values are hashed as JSON."""
    if isinstance(value, FilePart):
        return value.digest()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _plain_name(text: str) -> str:
    """Return the name without folders; characters that are not printed become `_`."""
    name = FOLDERS.split(text)[-1].strip()
    return "".join(character if character.isprintable() else "_" for character in name)


class Files(fields.Field[Any]):
    """Up to MAX_FILES files, which only the parts of a multipart form can be."""

    default_error_messages = wording(
        invalid="Send files as parts of a multipart/form-data body, each with a file name.",
        max_items=f"Ensure this field has no more than {MAX_FILES} elements.",
    )

    def __init__(self) -> None:
        super().__init__(load_default=list)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> tuple[FilePart, ...]:
        if not (isinstance(value, list) and value and all(isinstance(item, FilePart) for item in value)):
            raise self.make_error("invalid")
        if len(value) > MAX_FILES:
            raise self.make_error("max_items")
        refused = {str(index): messages for index, item in enumerate(value) if (messages := _messages(item))}
        if refused:
            raise ValidationError(refused)
        return tuple(value)


def _messages(part: FilePart) -> list[str]:
    messages = []
    if stored_type(part) is None:
        messages.append(f'"{printable(part.content_type)}" is not a media type such as image/png.')
    if len(part.name) > MAX_NAME_LENGTH:
        messages.append(f"Ensure the file name has no more than {MAX_NAME_LENGTH} characters.")
    return messages
