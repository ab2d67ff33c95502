"""The texts that were really sent in a query or a form, by name."""

from collections import defaultdict
from email import message_from_bytes
from urllib.parse import parse_qs, urlsplit

import requests

Texts = dict[str, list[str]]


def query_texts(request: requests.PreparedRequest) -> Texts:
    return _parsed(urlsplit(str(request.url)).query)


def form_texts(request: requests.PreparedRequest) -> Texts:
    body = request.body or b""
    raw = body.encode() if isinstance(body, str) else body
    assert isinstance(raw, bytes)
    content_type = str(request.headers["Content-Type"])
    if content_type.startswith("multipart/"):
        return _parts(raw, content_type)
    return _parsed(raw.decode())


def _parsed(text: str) -> Texts:
    return parse_qs(text, keep_blank_values=True)


def _parts(raw: bytes, content_type: str) -> Texts:
    texts: Texts = defaultdict(list)
    message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + raw)
    for part in message.walk():
        name, content = part.get_param("name", header="Content-Disposition"), part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            texts[name].append(content.decode(errors="replace"))
    return texts
