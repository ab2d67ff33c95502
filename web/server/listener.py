"""An application on a listening socket, which refuses even malformed HTTP in JSON."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import structlog
from aiohttp import StreamReader, web
from aiohttp.http_exceptions import BadHttpMethod, InvalidURLError, LineTooLong, PayloadEncodingError

from web.app_keys import ANSWER
from web.errors import framework_error_response
from web.json import json_response
from web.observability.request_id import HEADER, fresh_id, id_of
from web.server.acceptor import Acceptor
from web.server.access_log import access_log_options, answer_timed
from web.server.connections import Connections, Place
from web.server.framework import EndOfHead, Finished, RequestHandler, SecuredResponse
from web.server.head_limit import HEAD_TOO_LONG
from web.server.line_limit import LineLimit
from web.server.operator_places import answer_operator_only
from web.server.security_headers import headers_for, secure
from web.server.settings import ConnectionSettings
from web.server.slow_readers import ReaderWatch
from web.server.unread_body import announce_close, discard_rest
from web.server.unsent_bytes import UnsentBytes

BACKLOG = 1024
SHUTDOWN_SECONDS = 1.0  # for the last requests; the service has drained before
DEFAULTS = ConnectionSettings()
NO_ACCESS_LOG: dict[str, Any] = {"access_log": None}
INVALID_HTTP = "The request is not valid HTTP."
MALFORMATIONS = {  # in words, because aiohttp's own messages quote the request
    BadHttpMethod: "it does not begin with a known method; perhaps the client expects TLS",
    InvalidURLError: "the address in the first line is invalid",
    LineTooLong: "a line of the head is too long",
    PayloadEncodingError: "the body does not have the announced length or encoding",
}
OPTIONS: dict[str, Any] = {
    "auto_decompress": False,  # `web/request/body.py` decompresses, and only bodies that are read
    "lingering_time": 0.0,  # `discard_rest` limits the bytes as well
}

log = structlog.get_logger(__name__)


def _malformation(error: BaseException | None) -> str:
    """Return in words what is wrong with a request, without any part of it."""
    kinds = (words for kind, words in MALFORMATIONS.items() if isinstance(error, kind))
    return next(kinds, "the first line or a header is invalid")


class Protocol(ReaderWatch):
    """A connection. Unlike aiohttp's own it never repeats malformed input, which may hold secrets."""

    __slots__ = ("_connections", "_discarded", "_handling")

    def __init__(self, manager: web.Server, connections: Connections, place: Place, **options: Any) -> None:
        super().__init__(manager, **options)
        handler: RequestHandler = manager.request_handler
        if self.has_log:
            handler = partial(answer_timed, handler)
        self._connections = connections
        self._discarded: StreamReader | None = None  # the body whose rest is being dropped
        if place is Place.OPERATORS_REQUEST:
            handler = partial(answer_operator_only, handler, self._answer_headers)
        self.answer_by(handler)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._handling = self.handling
        cast("asyncio.Task[None]", self._handling).add_done_callback(self._end_handling)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._discarded is not None:
            self._discarded.feed_eof()
        super().connection_lost(exc)
        self._leave_if_over()

    def _end_handling(self, _: object) -> None:
        self._handling = None  # its exception refers to the last request and its answer
        self._leave_if_over()

    def _leave_if_over(self) -> None:
        """Give the place back when the connection is lost and its request, which goes on without it, is over.

        Otherwise a client that disconnects could leave any number of requests behind.
        """
        if self.transport is None and self._handling is None:
            self._connections.remove(self)

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
        request_id, body = fresh_id(), {"detail": HEAD_TOO_LONG if status == 431 else INVALID_HTTP}
        if status < 500:
            reason = _malformation(exc)
            self._lines.write(log.info, "malformed request refused", reason=reason, request_id=request_id)
        else:
            log.error("request failed", exc_info=exc, request_id=request_id)
            body = {"detail": "Internal server error.", "request_id": request_id}
        answer = SecuredResponse(json_response(body, status, {HEADER: request_id}), self._answer_headers)
        answer.force_close()
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Finished:
        """Send refusals of the framework itself in JSON as well.

        Afterwards drop the rest of the request's body, within limits.
        """
        if isinstance(resp, web.HTTPException) and resp.status >= 400:
            resp = framework_error_response(resp)
            resp.headers[HEADER] = id_of(request)
        result = await super().finish_response(request, resp, start_time)
        if not request.content.is_eof():
            self._discarded = request.content
            await discard_rest(request.content)
            self._discarded = None
        return result

    async def shutdown(self, timeout: float | None = None) -> None:
        """Close the connection, even if the client has not read the whole response."""
        transport = self.transport
        await super().shutdown(timeout)
        if transport is not None:
            cast(asyncio.WriteTransport, transport).abort()


@asynccontextmanager
async def serving(
    app: web.Application, listener: socket.socket, settings: ConnectionSettings = DEFAULTS
) -> AsyncIterator[None]:
    """Serve requests from a socket, which still listens afterwards so that another server can take over."""
    headers = headers_for(is_https=settings.is_https)
    app.on_response_prepare.append(partial(_prepare_answer, headers))
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    connections, manager = Connections(settings), cast(web.Server, runner.server)
    if ANSWER in app:
        manager.request_handler = cast(RequestHandler, app[ANSWER])

    unsent, lines, end_of_head = UnsentBytes(settings.trusted_proxies), LineLimit(), EndOfHead(headers)
    access_log = access_log_options(settings.trusted_proxies) if settings.has_access_log else NO_ACCESS_LOG

    def connect(place: Place, peer: str) -> Protocol:
        return Protocol(
            manager,
            connections,
            place,
            settings=settings,
            peer=peer,
            unsent=unsent,
            lines=lines,
            answer_headers=headers,
            end_of_head=end_of_head,
            loop=asyncio.get_running_loop(),
            **access_log,
            **OPTIONS,
        )

    try:
        async with Acceptor(listener, connections, connect, headers):
            yield
    finally:
        await runner.cleanup()


async def _prepare_answer(
    headers: Mapping[str, str], request: web.BaseRequest, answer: web.StreamResponse
) -> None:
    """Complete the head of an answer, the last step before it is sent."""
    secure(answer.headers, headers)
    announce_close(request, answer)
