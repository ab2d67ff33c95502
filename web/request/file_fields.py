"""The field for files in multipart forms."""

from typing import Any

from marshmallow import ValidationError, fields

from web.fields import printable, wording
from web.request.file_parts import FilePart, stored_type

MAX_FILES = 20
MAX_NAME_LENGTH = 255


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
