"""The last step before an answer is sent, and the answers that no application makes.

Every answer has the headers that protect browsers and caches, and no banner that names the software.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import StreamReader, hdrs, web
from aiohttp.http_exceptions import BadHttpMethod, InvalidURLError, LineTooLong, PayloadEncodingError
from multidict import istr

from web.errors import APPLIED_HEADER
from web.json import JSON_TYPE, to_json
from web.observability.line_limit import LineLimit
from web.observability.requests import HEADER, HEADERS, id_for
from web.request.chunks import OF_ANYBODY, SmallChunks, read_pieces

RETRY_SECONDS = 1
MAX_DISCARDED_BYTES = 1_048_576  # of a body that nobody reads, because its request was refused
DISCARD_SECONDS = 1.0
MAX_HEAD_BYTES = 16_384
HEAD_TOO_LONG = f"The request head is longer than {MAX_HEAD_BYTES} bytes."
MAX_LINES = 10  # of the log in a minute about one kind of bad client
INVALID_HTTP = "The request is not valid HTTP."
MALFORMATIONS = {  # in words, because aiohttp's own messages quote the request, which may hold secrets
    BadHttpMethod: "it does not begin with a known method; perhaps the client expects TLS",
    InvalidURLError: "the address in the first line is invalid",
    LineTooLong: "a line of the head is too long",
    PayloadEncodingError: "the body does not have the announced length or encoding",
}
SECURITY_HEADERS: Mapping[str, str] = {
    istr("X-Content-Type-Options"): "nosniff",
    istr("X-Frame-Options"): "DENY",
    istr("Referrer-Policy"): "no-referrer",
    istr("Cross-Origin-Resource-Policy"): "same-origin",
    istr("Content-Security-Policy"): "default-src 'none'; frame-ancestors 'none'",
    istr("Cache-Control"): "no-store",
}
HTTPS_HEADERS: Mapping[str, str] = {istr("Strict-Transport-Security"): "max-age=31536000"}

log = structlog.get_logger(__name__)


def headers_for(*, is_https: bool) -> Mapping[str, str]:
    """Return the headers of answers to clients that use HTTPS, or HTTP."""
    return {**SECURITY_HEADERS, **HTTPS_HEADERS} if is_https else SECURITY_HEADERS


async def prepare_answer(
    defaults: Mapping[str, str], request: web.BaseRequest, answer: web.StreamResponse
) -> None:
    """Complete the head of an answer: by the `defaults` that it lacks, and what the request has collected.

    Tell the client that the connection ends if it need not, or may not, send the rest of its body. It need
    not if it waits for permission (`Expect`), it may not after too many small chunks.
    """
    headers = answer.headers
    headers.pop(hdrs.SERVER, None)  # the framework's banner
    headers.merge(defaults)
    if answer.status >= HTTPStatus.BAD_REQUEST:
        request[HEADERS].pop(APPLIED_HEADER, None)
    headers.update(request[HEADERS])
    is_abandoned = isinstance(request.content.exception(), SmallChunks)
    may_end = (request.content_length or 0) > MAX_DISCARDED_BYTES or hdrs.EXPECT in request.headers
    if is_abandoned or (may_end and not request.content.is_eof()):
        headers[hdrs.CONNECTION] = "close"
        answer.force_close()


class ClosingAnswer(web.Response):
    """An answer in JSON to a request that no application has seen. The connection ends after it."""

    def __init__(self, status: int, body: Any, request_id: str, defaults: Mapping[str, str]) -> None:
        headers = {hdrs.CONTENT_TYPE: JSON_TYPE, HEADER: request_id}
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers[hdrs.RETRY_AFTER] = str(RETRY_SECONDS)
        super().__init__(body=to_json(body), status=status, headers=headers)
        self._defaults = defaults
        self.force_close()

    async def _prepare_headers(self) -> None:
        """Add the headers here, because `on_response_prepare` is a hook of applications only."""
        await super()._prepare_headers()
        self.headers.pop(hdrs.SERVER, None)
        self.headers.merge(self._defaults)


async def discard_rest(content: StreamReader) -> None:
    """Drop what still arrives of a body that the application has not read, because it refused the request.

    So the client can finish sending and read the answer; otherwise the connection is reset.
    """
    bytes_left = MAX_DISCARDED_BYTES
    pieces = read_pieces(content, OF_ANYBODY)
    try:
        async with asyncio.timeout(DISCARD_SECONDS), aclosing(pieces):
            async for piece in pieces:
                bytes_left -= len(piece)
                if bytes_left <= 0:
                    break
    except (OSError, SmallChunks, web.RequestPayloadError):  # too late, in too small chunks, or broken
        pass


def error_answer(
    status: int, error: BaseException | None, lines: LineLimit, defaults: Mapping[str, str]
) -> ClosingAnswer:
    """Return the answer to a request that is malformed, or that failed outside of the application; log it.

    Neither the answer nor the line has any part of a malformed request.
    """
    request_id = id_for()
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("request failed", exc_info=error, request_id=request_id)
        return ClosingAnswer(
            status, {"detail": "Internal server error.", "request_id": request_id}, request_id, defaults
        )
    kinds = (words for kind, words in MALFORMATIONS.items() if isinstance(error, kind))
    reason = next(kinds, "the first line or a header is invalid")
    lines.write(log.info, "malformed request refused", MAX_LINES, reason=reason, request_id=request_id)
    is_too_long = status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return ClosingAnswer(
        status, {"detail": HEAD_TOO_LONG if is_too_long else INVALID_HTTP}, request_id, defaults
    )


def raw_answer(status: HTTPStatus, detail: str, headers: Mapping[str, str]) -> bytes:
    """Return a whole answer to a connection whose request is not read, and which is closed afterwards."""
    body = to_json({"detail": detail})
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {JSON_TYPE}",
        f"Content-Length: {len(body)}",
        f"{HEADER}: {id_for()}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "Connection: close",
    ]
    if status is not HTTPStatus.REQUEST_TIMEOUT:
        lines.append(f"Retry-After: {RETRY_SECONDS}")
    return "\r\n".join((*lines, "", "")).encode() + body
