"""What a connection may cost: heads, unread bodies, and answers that are not taken.

aiohttp itself limits only the length of each line of a head, and the time between two requests. The kernel
aborts a connection whose client takes nothing of an answer (`TCP_USER_TIMEOUT`).

Every answer has the headers that protect browsers and caches, and no banner that names the software.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain
from time import perf_counter
from typing import Any, cast

import structlog
from aiohttp import StreamReader, hdrs, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMethod, InvalidURLError, LineTooLong, PayloadEncodingError
from aiohttp.typedefs import Handler
from multidict import istr

from supervisors.fair_slots import decrement
from web.errors import APPLIED_HEADER, refuse
from web.json import JSON_TYPE, to_json
from web.observability.line_limit import LineLimit
from web.observability.requests import CURRENT_ID, HEADER, HEADERS, RequestCounts, id_for
from web.request.chunks import OF_ANYBODY, SmallChunks, read_pieces
from web.request.client_address import is_within, network_of
from web.settings import ConnectionSettings

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

MAX_UNSENT_BYTES = 268_435_456  # of answers that clients have not taken
MAX_UNSENT_SHARE = 4  # one client network may have a quarter of them, unless it is a trusted proxy
COPIES = 2  # that aiohttp holds of an answer until its last byte is taken: with its head, and without
OPERATOR_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
STATUS = "/status/"

log = structlog.get_logger(__name__)


class UnsentBytes:
    """The bytes that wait for slow readers, in all and by client network.

    Each answer has been built when its connection learns that the client is slow. So the connections that
    have waited longest are cut off to make room: those of the same network if that one exceeds its share,
    otherwise those of the network with the most bytes.
    """

    def __init__(self, max_bytes: int = MAX_UNSENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._sizes: dict[Connection, int] = {}  # the longest wait first
        self._by_network: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<UnsentBytes: {self._by_network.total()} of {self._max_bytes}>"

    def add(self, connection: "Connection", size: int) -> None:
        """Count the bytes that wait in a connection, until `remove`. It may be cut off at once."""
        self._sizes[connection] = size
        self._by_network[connection.network] += size
        share = self._max_bytes if connection.is_trusted else self._max_bytes // MAX_UNSENT_SHARE
        while self._by_network[connection.network] > share:
            self._cut_off_oldest(connection.network)
        while self._by_network.total() > self._max_bytes:
            self._cut_off_oldest(self._by_network.most_common(1)[0][0])

    def remove(self, connection: "Connection") -> None:
        """Forget a connection; it may have been forgotten before."""
        if connection in self._sizes:
            decrement(self._by_network, connection.network, self._sizes.pop(connection))

    def _cut_off_oldest(self, network: str) -> None:
        oldest = next(connection for connection in self._sizes if connection.network == network)
        self.remove(oldest)
        oldest.cut_off("too many bytes wait for slow readers")


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a server share: its application, and what it counts and limits.

    `leave` is called with each connection that has ended.
    """

    application: Handler
    counts: RequestCounts
    settings: ConnectionSettings
    answer_headers: Mapping[str, str]
    lines: LineLimit
    leave: "Callable[[Connection], None]"
    unsent: UnsentBytes = field(default_factory=lambda: UnsentBytes())


class Connection(web.RequestHandler):
    """A connection, which keeps neither the body of a request nor its answer when both are over.

    Each head must arrive in time: that of the first one begins with the connection, that of each further one
    with its first byte.
    """

    __slots__ = (
        *(
            "_answered",
            "_deadline",
            "_head_bytes",
            "_held_bytes",
            "_is_handling",
            "_is_malformed",
            "_is_silent",
        ),
        *("_is_spare", "_request", "_shared", "_since", "began", "is_trusted", "network"),
    )

    def __init__(
        self, manager: web.Server, shared: Shared, options: Mapping[str, Any], peer: str, *, is_spare: bool
    ) -> None:
        """Prepare for a client. A spare connection is beyond the maximum: for a request of the operator."""
        loop, settings = asyncio.get_running_loop(), shared.settings
        super().__init__(manager, loop=loop, keepalive_timeout=settings.keepalive_seconds, **options)
        self.network = network_of(peer)
        self.is_trusted = is_within(peer, settings.trusted_proxies)
        self.began = 0.0  # the request in progress
        self._is_malformed = False  # what has arrived, so nothing more of it is parsed
        self._is_spare = is_spare
        self._shared = shared
        self._answered = 0  # requests
        self._request: web.BaseRequest | None = None  # until its answer is sent
        self._is_handling = False  # the request, by the application
        self._since = perf_counter()  # the connection, or its last answer
        self._deadline: asyncio.TimerHandle | None = None  # of the head that is arriving
        self._is_silent = True  # nothing of that head has arrived
        self._head_bytes = 0  # that have arrived since the last complete head
        self._held_bytes = 0  # of the answer, until the client has taken all of it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Without a limit of 0, up to 64 KiB would wait in the transport without being counted.
        cast(asyncio.WriteTransport, transport).set_write_buffer_limits(high=0)
        super().connection_made(transport)
        milliseconds = int(self._shared.settings.reader_seconds * 1000)
        accepted = transport.get_extra_info("socket")
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        seconds = self._shared.settings.head_seconds
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._end_late_head)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if isinstance(exc, TimeoutError):
            self._log_cut_off("nothing taken in time")
        self._shared.unsent.remove(self)
        # Leave out the error: the writer that waits for the client would raise it from a future in its own
        # frame. That is a reference cycle, which would hold the answer until the next garbage collection.
        super().connection_lost(None)
        if not self._is_handling:
            self._shared.leave(self)

    # Requests: what is in progress.

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer of the application, or in JSON why there is none, and count it.

        A client that disconnects keeps its place until then. Otherwise it could leave any number of requests
        behind.
        """
        self._request, self.began = request, perf_counter()  # the loop's clock advances once per iteration
        head_bytes = sum(map(len, chain.from_iterable(request.raw_headers)))
        if len(request.raw_path) + head_bytes > MAX_HEAD_BYTES:
            return self.handle_error(request, 431, LineTooLong(b""))
        request_id = id_for(request.headers.get(HEADER, ""))
        if self._is_spare:
            self.close()
            if not (request.path in OPERATOR_PATHS or request.path.startswith(STATUS)):
                refusal = {"detail": "Too many connections are open."}
                return ClosingAnswer(503, refusal, request_id, self._shared.answer_headers)
        request[HEADERS] = {HEADER: request_id}
        CURRENT_ID.set(request_id)
        self._is_handling = True
        try:
            answer = await self._shared.application(request)
        except Exception as error:  # the request's outermost edge
            answer = await refuse(request, error)
        finally:
            self._is_handling = False
            if self.transport is None:
                self._shared.leave(self)
        if self._is_spare:
            answer.force_close()
        self._shared.counts.add(request.match_info.route, answer.status, perf_counter() - self.began)
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, and drop the rest of the request's body, within limits."""
        if isinstance(resp, web.Response) and isinstance(resp.body, bytes):
            self._held_bytes = COPIES * len(resp.body)
        result = await super().finish_response(request, resp, start_time)  # parses what follows an `Upgrade`
        self._release_malformed()
        self._held_bytes = 0
        if isinstance(resp, web.Response):
            resp.body = None  # aiohttp would keep it until the next request of the connection
        if not request.content.is_eof():
            await discard_rest(request.content)
        self._answered += 1
        self._request, self._since = None, perf_counter()
        return result

    def order_of_ending(self) -> tuple[int, float] | None:
        """Return a key by which connections are ordered that may end to make room; None if this one may not.

        First come those that have never sent a request, then idle ones, then those whose request is not
        complete because its body is still arriving. Within each of these, the oldest come first.
        """
        if self._is_idle():
            return (1 if self._answered else 0, self._since)
        if self._request is not None and not self._request.content.is_eof():
            return (2, self._since)
        return None

    def _is_idle(self) -> bool:
        """Return whether nothing is in progress: neither a request nor the sending of an answer."""
        if self.transport is None or self._request_count > self._answered:
            return False
        return cast(asyncio.WriteTransport, self.transport).get_write_buffer_size() == 0

    # Heads: their time, their length and their form.

    def data_received(self, data: bytes) -> None:
        if self._is_malformed:
            return
        heads = self._request_count  # complete ones; nothing public tells how many have arrived
        may_begin_head = heads == self._answered or (
            self._request is not None and self._request.content.is_eof()
        )
        super().data_received(data)
        if self._request_count != heads:
            self._head_bytes = 0
            self._is_silent = True
            self._release_malformed()
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif data and may_begin_head:
            self._is_silent = False
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._end_head(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HEAD_TOO_LONG)
            elif self._deadline is None:
                seconds = self._shared.settings.head_seconds
                self._deadline = asyncio.get_running_loop().call_later(seconds, self._end_late_head)

    def _end_late_head(self) -> None:
        self._deadline = None
        detail = f"The request head did not arrive within {self._shared.settings.head_seconds:g} seconds."
        self._end_head(HTTPStatus.REQUEST_TIMEOUT, detail)

    def _end_head(self, status: HTTPStatus, detail: str) -> None:
        """Close the connection, after the request in progress if there is one."""
        if self.transport is None:
            return
        if not self._is_idle():
            self.close()
            return
        if not self._is_silent:
            self.transport.write(raw_answer(status, detail, self._shared.answer_headers))
        self.force_close()

    def _release_malformed(self) -> None:
        """Parse nothing more behind malformed HTTP, and release what has arrived of it.

        Each further piece would be an error of its own. The frames of its traceback hold the piece and, in a
        reference cycle, the error itself.
        """
        for message, _ in self._messages:
            if not isinstance(message, RawRequestMessage):
                self._is_malformed = True
                message.exc.__traceback__ = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer 400 to malformed HTTP, and 500 to any other error that reaches the connection."""
        if request.writer.output_size > 0:
            raise ConnectionError("the response has already begun")
        return error_answer(status, exc, self._shared.lines, self._shared.answer_headers)

    # Slow readers.

    def pause_writing(self) -> None:
        super().pause_writing()
        waiting = cast(asyncio.WriteTransport, self.transport).get_write_buffer_size()
        self._shared.unsent.add(self, max(waiting, self._held_bytes))

    def resume_writing(self) -> None:
        self._shared.unsent.remove(self)
        super().resume_writing()

    def cut_off(self, reason: str) -> None:
        """Abort the connection, because the answers that wait for slow readers take too much memory."""
        if self.transport is not None:
            self._log_cut_off(reason)
            self.transport.abort()

    def _log_cut_off(self, reason: str) -> None:
        line = {"client": self.network, "reason": reason, "seconds": self._shared.settings.reader_seconds}
        self._shared.lines.write(log.warning, "slow reader cut off", MAX_LINES, **line)

    async def shutdown(self, timeout: float | None = None) -> None:
        """Close the connection, even if the client has not read the whole response."""
        transport = self.transport
        await super().shutdown(timeout)
        if transport is not None:
            cast(asyncio.WriteTransport, transport).abort()


def answer_of_connection(request: Any) -> Awaitable[web.StreamResponse]:
    """Have the connection of a request answer it; the handler of a server."""
    connection: Connection = request.protocol
    return connection.answer(request)


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
