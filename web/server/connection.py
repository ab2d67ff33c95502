"""What a connection may cost: heads, bodies that nobody reads, and answers that its client does not take.

aiohttp itself limits only the length of each line of a head, and the time between two requests. The kernel
aborts a connection whose client takes nothing of an answer (`TCP_USER_TIMEOUT`).
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import Any, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.typedefs import Handler

from supervisors.fair_slots import decrement
from web.errors import framework_error_response
from web.observability.line_limit import LineLimit
from web.observability.requests import HEADER, fresh_id, id_of
from web.request.client_address import is_within, network_of
from web.server.answers import INVALID_HTTP, ClosingAnswer, discard_rest, malformation, raw_answer
from web.settings import ConnectionSettings

MAX_HEAD_BYTES = 16_384
HEAD_TOO_LONG = f"The request head is longer than {MAX_HEAD_BYTES} bytes."
MAX_UNSENT_BYTES = 268_435_456  # of answers that clients have not taken
MAX_UNSENT_SHARE = 4  # one client network may have a quarter of them, unless it is a trusted proxy
COPIES = 2  # that aiohttp holds of an answer until its last byte is taken: with its head, and without
MAX_LINES = 10  # of the log in a minute about one kind of bad client

BEGAN = web.RequestKey("began", float)  # by `perf_counter`

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
    """What all connections of a server share; `leave` is called with each one that has ended."""

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
        *("_answered", "_deadline", "_handler", "_head_bytes", "_held_bytes", "_is_handling", "_is_silent"),
        *("_request", "_shared", "_since", "is_trusted", "network"),
    )

    def __init__(
        self, manager: web.Server, shared: Shared, peer: str, handler: Handler, **options: Any
    ) -> None:
        loop, settings = asyncio.get_running_loop(), shared.settings
        super().__init__(manager, loop=loop, keepalive_timeout=settings.keepalive_seconds, **options)
        self._handler = handler
        self.network = network_of(peer)
        self.is_trusted = is_within(peer, settings.trusted_proxies)
        self._shared = shared
        self._answered = 0  # requests
        self._request: web.BaseRequest | None = None  # until its answer is sent
        self._is_handling = False  # the request, by the application
        self._since = loop.time()  # the connection, or its last answer
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
        self._limit_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_limit()
        if isinstance(exc, TimeoutError):
            self._log_cut_off("nothing taken in time")
        self._shared.unsent.remove(self)
        # Leave out the error: the writer that waits for the client would raise it from a future in its own
        # frame. That is a reference cycle, which would hold the answer until the next garbage collection.
        super().connection_lost(None)
        self._leave_if_over()

    # Requests: what is in progress.

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer of the application, or in JSON what the framework refuses.

        A client that disconnects keeps its place until then. Otherwise it could leave any number of requests
        behind.
        """
        self._request, self._is_handling = request, True
        request[BEGAN] = perf_counter()
        try:
            if (
                len(request.raw_path) + sum(len(name) + len(value) for name, value in request.raw_headers)
                > MAX_HEAD_BYTES
            ):
                return self.handle_error(request, 431, LineTooLong(b""))
            return await self._handler(request)
        except web.HTTPException as error:
            answer = framework_error_response(error)
            answer.headers[HEADER] = id_of(request)
            return answer
        finally:
            self._is_handling = False
            self._leave_if_over()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, and drop the rest of the request's body, within limits."""
        if isinstance(resp, web.Response) and isinstance(resp.body, bytes | bytearray):
            self._held_bytes = COPIES * len(resp.body)
        result = await super().finish_response(request, resp, start_time)
        self._held_bytes = 0
        if isinstance(resp, web.Response):
            resp.body = None  # aiohttp would keep it until the next request of the connection
        if not request.content.is_eof():
            await discard_rest(request.content)
        self._answered += 1
        self._request, self._since = None, asyncio.get_running_loop().time()
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

    def _leave_if_over(self) -> None:
        if self.transport is None and not self._is_handling:
            self._shared.leave(self)

    # Heads: their time and their length.

    def data_received(self, data: bytes) -> None:
        heads = self._request_count  # complete ones; nothing public tells how many have arrived
        may_begin_head = heads == self._answered or (
            self._request is not None and self._request.content.is_eof()
        )
        super().data_received(data)
        if self._request_count != heads:
            self._head_bytes = 0
            self._stop_limit()
        elif data and may_begin_head:
            self._is_silent = False
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._end_head(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HEAD_TOO_LONG)
            elif self._deadline is None:
                self._limit_head()

    def _limit_head(self) -> None:
        seconds = self._shared.settings.head_seconds
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._end_late_head)

    def _stop_limit(self) -> None:
        self._is_silent = True
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

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
        request_id = fresh_id()
        if status < 500:
            reason = malformation(exc)
            self._shared.lines.write(
                log.info, "malformed request refused", MAX_LINES, reason=reason, request_id=request_id
            )
            body = {"detail": HEAD_TOO_LONG if status == 431 else INVALID_HTTP}
        else:
            log.error("request failed", exc_info=exc, request_id=request_id)
            body = {"detail": "Internal server error.", "request_id": request_id}
        return ClosingAnswer(status, body, self._shared.answer_headers, request_id)

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
        self._shared.lines.write(
            log.warning,
            "slow reader cut off",
            MAX_LINES,
            client=self.network,
            reason=reason,
            seconds=self._shared.settings.reader_seconds,
        )

    async def shutdown(self, timeout: float | None = None) -> None:
        """Close the connection, even if the client has not read the whole response."""
        transport = self.transport
        await super().shutdown(timeout)
        if transport is not None:
            cast(asyncio.WriteTransport, transport).abort()
