"""An application on a listening socket, whose every answer is in JSON."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from web.errors import Unavailable
from web.observability.line_limit import LineLimit
from web.observability.requests import id_of
from web.server.acceptor import Acceptor, Connections, Place
from web.server.access_log import access_log_options
from web.server.answers import RETRY_SECONDS, ClosingAnswer, headers_for, prepare_answer
from web.server.connection import Connection, Shared
from web.settings import ConnectionSettings

BACKLOG = 1024
SHUTDOWN_SECONDS = 1.0  # for the last requests; the service has drained before
DEFAULTS = ConnectionSettings()
NO_ACCESS_LOG: dict[str, Any] = {"access_log": None}
OPERATOR_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
STATUS = "/status/"
OPTIONS: dict[str, Any] = {
    "auto_decompress": False,  # `web/request/body.py` decompresses, and only bodies that are read
    "lingering_time": 0.0,  # `Connection` drops the rest of a body, and limits its bytes as well
}


@asynccontextmanager
async def serving(
    app: web.Application, listener: socket.socket, settings: ConnectionSettings = DEFAULTS
) -> AsyncIterator[None]:
    """Serve requests from a socket, which still listens afterwards so that another server can take over."""
    headers = headers_for(is_https=settings.is_https)
    app.on_response_prepare.append(partial(prepare_answer, headers))
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    manager = cast(web.Server, runner.server)
    application = cast(Handler, manager.request_handler)
    manager.request_handler = _answer
    lines = LineLimit(asyncio.get_running_loop().time)
    connections = Connections(settings, lines)
    shared = Shared(settings, headers, lines, connections.remove)
    access_log = access_log_options(settings.trusted_proxies) if settings.has_access_log else NO_ACCESS_LOG

    def connect(place: Place, peer: str) -> Connection:
        handler = application
        if place is Place.OPERATORS_REQUEST:
            handler = partial(answer_operator_only, application, headers)
        return Connection(manager, shared, peer, handler, **access_log, **OPTIONS)

    try:
        async with Acceptor(listener, connections, connect, headers, lines):
            yield
    finally:
        await runner.cleanup()


def _answer(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
    return cast(Connection, request.protocol).answer(cast(web.Request, request))


async def answer_operator_only(
    handler: Handler, answer_headers: Mapping[str, str], request: web.Request
) -> web.StreamResponse:
    """Answer one health check or status request, and 503 to anything else. The connection ends afterwards.

    Connections beyond the maximum are only for the requests by which operators and load balancers look on.
    """
    if request.path in OPERATOR_PATHS or request.path.startswith(STATUS):
        answer = await handler(request)
        answer.force_close()
    else:
        refusal = Unavailable("Too many connections are open.", RETRY_SECONDS)
        answer = ClosingAnswer(refusal.status, refusal.body, answer_headers, id_of(request))
        answer.headers.update(refusal.headers)
    request.protocol.close()
    return answer
