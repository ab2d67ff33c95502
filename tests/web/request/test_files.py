"""Files in multipart forms: their names and the types that they are stored as."""

import pytest

from web.errors import BadRequest
from web.request.files import FilePart, file_part, stored_type
from web.request.forms import parse_multipart

DISPOSITION = b'Content-Disposition: form-data; name="files"'


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b'"a.png"', "a.png"),
        (b"a.png", "a.png"),
        (b'"C:\\Users\\ada\\a.png"', "a.png"),
        (b'"../../etc/passwd"', "passwd"),
        (b'" caf\xc3\xa9\x01.png "', "caf\u00e9_.png"),
        (b'""', ""),
    ],
)
def test_name_of_file_has_no_folders(sent: bytes, name: str) -> None:
    part = file_part(DISPOSITION + b"; filename=" + sent, b"x")
    assert part == FilePart(name, "application/octet-stream", b"x")


def test_part_without_file_name_is_a_text() -> None:
    assert file_part(DISPOSITION, b"x") is None


def test_name_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BadRequest, match="Multipart form parse error"):
        file_part(DISPOSITION + b'; filename="\xff"', b"x")


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("image/svg+xml", "image/svg+xml"),
        ("image/webp", "image/webp"),
        ("image/gif", "application/octet-stream"),
        ("text", None),
        ("text/", None),
        ("", None),
        ("a/b\u00e9", None),
        (f"text/{'x' * 128}", None),
    ],
)
def test_type_of_file_is_checked(declared: str, stored: str | None) -> None:
    assert stored_type(FilePart("a", declared, b"RIFF\0\0\0\0WEBP")) == stored


def test_only_the_field_for_files_contains_files() -> None:
    parts = "".join(
        f'--xyz\r\nContent-Disposition: form-data; name="{name}"; filename="a"\r\n\r\n{name}\r\n'
        for name in ("body", "files")
    )
    raw = f"{parts}--xyz--\r\n".encode()
    file = FilePart("a", "application/octet-stream", b"files")
    media_type = "multipart/form-data; boundary=xyz"
    assert parse_multipart(raw, media_type, "files") == ([("body", "body")], [file])
    assert parse_multipart(raw, media_type) == ([("body", "body"), ("files", "files")], [])
