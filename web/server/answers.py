"""The last step before an answer is sent, and the answers that no application makes.

Every answer has the headers that protect browsers and caches, and no banner that names the software.
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from http import HTTPStatus
from typing import Any

from aiohttp import StreamReader, hdrs, web
from aiohttp.http_exceptions import BadHttpMethod, InvalidURLError, LineTooLong, PayloadEncodingError
from multidict import istr

from web.json import JSON_TYPE, to_json
from web.observability.requests import HEADER, fresh_id

RETRY_SECONDS = 1
MAX_DISCARDED_BYTES = 1_048_576  # of a body that nobody reads, because its request was refused
DISCARD_SECONDS = 1.0
INVALID_HTTP = "The request is not valid HTTP."
MALFORMATIONS = {  # in words, because aiohttp's own messages quote the request, which may hold secrets
    BadHttpMethod: "it does not begin with a known method; perhaps the client expects TLS",
    InvalidURLError: "the address in the first line is invalid",
    LineTooLong: "a line of the head is too long",
    PayloadEncodingError: "the body does not have the announced length or encoding",
}
HEADERS: Mapping[str, str] = {
    istr("X-Content-Type-Options"): "nosniff",
    istr("X-Frame-Options"): "DENY",
    istr("Referrer-Policy"): "no-referrer",
    istr("Cross-Origin-Resource-Policy"): "same-origin",
    istr("Content-Security-Policy"): "default-src 'none'; frame-ancestors 'none'",
    istr("Cache-Control"): "no-store",
}
HTTPS_HEADERS: Mapping[str, str] = {istr("Strict-Transport-Security"): "max-age=31536000"}


def headers_for(*, is_https: bool) -> Mapping[str, str]:
    """Return the headers of answers to clients that use HTTPS, or HTTP."""
    return {**HEADERS, **HTTPS_HEADERS} if is_https else HEADERS


async def prepare_answer(
    headers: Mapping[str, str], request: web.BaseRequest, answer: web.StreamResponse
) -> None:
    """Complete the head of an answer.

    Tell the client that the connection ends if it need not, or may not, send the rest of its body. It need
    not if it waits for permission (`Expect`).
    """
    _secure(answer.headers, headers)
    if not request.content.is_eof() and (
        (request.content_length or 0) > MAX_DISCARDED_BYTES or hdrs.EXPECT in request.headers
    ):
        answer.headers[hdrs.CONNECTION] = "close"
        answer.force_close()


class ClosingAnswer(web.Response):
    """An answer in JSON to a request that no application has seen. The connection ends after it."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str], request_id: str) -> None:
        super().__init__(
            body=to_json(body), status=status, headers={hdrs.CONTENT_TYPE: JSON_TYPE, HEADER: request_id}
        )
        self._secured_by = headers
        self.force_close()

    async def _prepare_headers(self) -> None:
        """Add the headers here, because `on_response_prepare` is a hook of applications only."""
        await super()._prepare_headers()
        _secure(self.headers, self._secured_by)


async def discard_rest(content: StreamReader) -> None:
    """Drop what still arrives of a body that the application has not read, because it refused the request.

    So the client can finish sending and read the answer; otherwise the connection is reset.
    """
    bytes_left = MAX_DISCARDED_BYTES
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while bytes_left > 0 and not content.is_eof():
                bytes_left -= len(await content.readany())
    except (OSError, web.RequestPayloadError):  # too late, or broken
        pass


def malformation(error: BaseException | None) -> str:
    """Return in words what is wrong with a request, without any part of it."""
    kinds = (words for kind, words in MALFORMATIONS.items() if isinstance(error, kind))
    return next(kinds, "the first line or a header is invalid")


def raw_answer(status: HTTPStatus, detail: str, headers: Mapping[str, str]) -> bytes:
    """Return a whole answer to a connection whose request is not read, and which is closed afterwards."""
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


def _secure(answer: MutableMapping[str, str], headers: Mapping[str, str]) -> None:
    """Add the headers that an answer lacks, and remove the framework's banner."""
    answer.pop(hdrs.SERVER, None)
    for name, value in headers.items():
        answer.setdefault(name, value)
