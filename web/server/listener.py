"""An application on a listening socket, which refuses even malformed HTTP in JSON."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import structlog
from aiohttp import web

from web.app_keys import SETTINGS
from web.errors import framework_error_response
from web.json import json_response
from web.observability.request_id import HEADER, fresh_id, id_of
from web.server.slow_readers import ReaderWatch
from web.settings import READER_SECONDS

BACKLOG = 1024
SHUTDOWN_SECONDS = 1.0  # for the last requests; the service has drained before
OPTIONS: dict[str, Any] = {
    "access_log": None,  # the application logs requests itself
    "auto_decompress": False,  # `web/request/body.py` decompresses, and only bodies that are read
}

log = structlog.get_logger(__name__)


class Protocol(ReaderWatch):
    """A connection. Unlike aiohttp's own it never repeats malformed input, which may hold secrets."""

    __slots__ = ()

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
        request_id, body = fresh_id(), {"detail": "The request is not valid HTTP."}
        if status < 500:
            log.info("malformed request refused", reason=type(exc).__name__, request_id=request_id)
        else:
            log.error("request failed", exc_info=exc, request_id=request_id)
            body = {"detail": "Internal server error.", "request_id": request_id}
        answer = json_response(body, status, {HEADER: request_id})
        answer.force_close()
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send refusals that no middleware sees, such as that of an unknown `Expect`, in JSON as well."""
        if isinstance(resp, web.HTTPException) and resp.status >= 400:
            resp = framework_error_response(resp)
            resp.headers[HEADER] = id_of(request)
        return await super().finish_response(request, resp, start_time)

    async def shutdown(self, timeout: float | None = None) -> None:
        """Close the connection, even if the client has not read the whole response."""
        transport = self.transport
        await super().shutdown(timeout)
        if transport is not None:
            cast(asyncio.WriteTransport, transport).abort()


@asynccontextmanager
async def serving(app: web.Application, listener: socket.socket) -> AsyncIterator[None]:
    """Serve requests from a socket, which still listens afterwards so that another server can take over."""
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    reader_seconds = app[SETTINGS].reader_seconds if SETTINGS in app else READER_SECONDS
    try:
        server = await _listen(runner, listener.dup(), reader_seconds)
        try:
            yield
        finally:
            server.close()
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, listener: socket.socket, reader_seconds: float) -> asyncio.Server:
    loop, connections = asyncio.get_running_loop(), cast(web.Server, runner.server)
    return await loop.create_server(
        lambda: Protocol(connections, loop=loop, reader_seconds=reader_seconds, **OPTIONS),
        sock=listener,
        backlog=BACKLOG,
    )
