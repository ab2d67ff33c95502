"""Answers to connections whose request is not read: the connection is refused, or its request is too late."""

from collections.abc import Mapping
from http import HTTPStatus

from web.json import JSON_TYPE, to_json
from web.observability.request_id import HEADER, fresh_id

RETRY_SECONDS = 1


def raw_answer(status: HTTPStatus, detail: str, headers: Mapping[str, str]) -> bytes:
    """Return a whole answer with `headers`, after which the connection is closed."""
    body = to_json({"detail": detail})
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {JSON_TYPE}",
        f"Content-Length: {len(body)}",
        f"{HEADER}: {fresh_id()}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "Connection: close",
    ]
    if status is not HTTPStatus.REQUEST_TIMEOUT:
        lines.append(f"Retry-After: {RETRY_SECONDS}")
    return "\r\n".join((*lines, "", "")).encode() + body
