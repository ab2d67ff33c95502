"""The parts of aiohttp's inside that the service uses, because the public interface has no place for them.

Any version of aiohttp may change them, so a test fails for another version than VERSION. Then compare this
module with aiohttp's sources, run all tests, and change VERSION.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http_exceptions import LineTooLong
from aiohttp.http_parser import RawRequestMessage
from aiohttp.http_writer import _serialize_headers
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import _ErrInfo

from web.server.security_headers import secure

VERSION = "3.14.5"

# Neither the framework nor `EndOfHead` writes any of these, so they need no look at their values.
PLAIN_HEADERS = frozenset(
    {
        "Allow",
        "Content-Type",
        "Idempotency-Replayed",
        "Link",
        "Preference-Applied",
        "RateLimit",
        "RateLimit-Policy",
        "Retry-After",
        "Vary",
        "WWW-Authenticate",
        "X-Ignored",
        "X-Request-ID",
    }
)
WITHOUT_BODY = frozenset({204, 304})
COPIES = 2  # that the framework holds of an answer until its last byte is taken: with its head, and without

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Finished = tuple[web.StreamResponse, bool]  # the answer, and whether the client has gone


class EndOfHead:
    """The last lines of the head of ordinary answers, which change only with the second of the date."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._constant = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._date = ""
        self._lines = b""

    def lines(self) -> bytes:
        date = rfc822_formatted_time()
        if date != self._date:
            self._date = date
            self._lines = f"{hdrs.DATE}: {date}\r\n{self._constant}\r\n".encode()
        return self._lines


def whole_answer(request: web.BaseRequest, answer: web.StreamResponse, end: EndOfHead) -> bytes | None:
    """Return head and body of an ordinary answer; None for an answer that the framework must write.

    The bytes are those that the framework would write, and `secure` complete. It collects the headers of each
    answer in several steps, which takes three times as long.
    """
    message = request._message
    if (
        type(answer) is not web.Response
        or answer._status in WITHOUT_BODY
        or answer.prepared
        or answer._keep_alive is False
        or answer._chunked
        or answer._compression
        or answer._cookies
        or message.should_close
        or message.version != HttpVersion11
        or message.method == hdrs.METH_HEAD
        or not request._payload.is_eof()
    ):
        return None
    body, headers = answer._body, answer._headers
    if not isinstance(body, bytes) or not body or not PLAIN_HEADERS.issuperset(headers):
        return None
    if hdrs.CONTENT_TYPE not in headers:
        return None
    head = _serialize_headers(f"HTTP/1.1 {answer._status} {answer._reason}", headers)
    return b"%bContent-Length: %d\r\n%b%b" % (head[:-2], len(body), end.lines(), body)


class Connection(web.RequestHandler):
    """A connection that writes ordinary answers in one piece, and shows what its limits have to look at."""

    __slots__ = ("_end_of_head", "_held_bytes")

    def __init__(self, manager: web.Server, *, end_of_head: EndOfHead, **options: object) -> None:
        super().__init__(manager, **options)  # type: ignore[arg-type] # the options of the framework
        self._end_of_head = end_of_head
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Return how many bytes stay in memory until the client has taken all of the answer.

        Those of a streamed answer, which is sent in pieces, are not among them.
        """
        return self._held_bytes

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def heads(self) -> int:
        """Return how many request heads have arrived completely."""
        return self._request_count

    @property
    def idle_until(self) -> float:
        """Return when the connection ends if it stays idle."""
        return self._next_keepalive_close_time

    @property
    def request(self) -> web.BaseRequest | None:
        """Return the request that is being answered."""
        return self._current_request

    @property
    def handling(self) -> "asyncio.Task[None] | None":
        """Return the task that answers the requests of the connection."""
        return self._task_handler

    @property
    def has_log(self) -> bool:
        return self._logging_enabled

    def answer_by(self, handler: RequestHandler) -> None:
        """Let the handler answer the requests of this connection."""
        self._request_handler = handler

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on reading if it has paused. The framework parses its input again after each body."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def awaits_request(self) -> bool:
        """Return whether no request is being answered."""
        waiter = self._waiter
        return waiter is not None and not waiter.done()

    def may_begin_head(self) -> bool:
        """Return whether the next byte belongs to a request head, not to a body."""
        waiter = self._waiter
        if waiter is not None:
            return not waiter.done()
        request = self._current_request
        return request is not None and request._payload.is_eof()

    def refuse_waiting(
        self, is_refused: Callable[[RawRequestMessage], bool], status: HTTPStatus, detail: str
    ) -> None:
        """Replace those of the requests that wait to be answered by a refusal."""
        for place, (message, _) in enumerate(self._messages):
            if isinstance(message, RawRequestMessage) and is_refused(message):
                refusal = _ErrInfo(status=status, exc=LineTooLong(b""), message=detail)
                self._messages[place] = (refusal, EMPTY_PAYLOAD)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Finished:
        """Send the answer. Afterwards forget its body, and that of the request.

        The framework would keep them until the next request of the connection.
        """
        data = None if self._upgraded else whole_answer(request, resp, self._end_of_head)
        if data is None:
            self._held_bytes = COPIES * _length(resp)
            result = await super().finish_response(request, resp, start_time)
        else:
            self._held_bytes = len(data)
            resp._body = None
            is_sent = self._write(resp, data)
            del data  # only the transport holds it while a slow client takes it
            result = resp, not (is_sent and await self._drain())
            self.log_access(request, resp, start_time)
        self._held_bytes = 0
        request._read_bytes = None
        resp._body = None
        return result

    def _write(self, answer: web.StreamResponse, data: bytes) -> bool:
        """Write the bytes of an answer. Return False if the client has gone."""
        answer._keep_alive = True
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        transport.write(data)
        answer._eof_sent = True
        answer._body_length = len(data)
        return True

    async def _drain(self) -> bool:
        """Wait until the client has taken the answer. Return False if it goes before."""
        if self._paused:
            try:
                await self._drain_helper()
            except ConnectionError:
                return False
        return True


def _length(answer: web.StreamResponse) -> int:
    body = answer._body
    return len(body) if isinstance(body, bytes | bytearray) else 0


class SecuredResponse(web.Response):
    """An answer to a request that no application has seen, so that no hook secures it."""

    def __init__(self, answer: web.Response, headers: Mapping[str, str]) -> None:
        super().__init__(body=answer.body, status=answer.status, headers=answer.headers)
        self._secured_by = headers

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        secure(self.headers, self._secured_by)


def set_match(request: web.Request, match: web.UrlMappingMatchInfo) -> None:
    """Note which route a request has, and the variables in its path."""
    request._match_info = match
