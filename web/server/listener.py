"""An application on one or two sockets, whose every answer is in JSON."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from web.app_keys import REQUEST_COUNTS
from web.observability.line_limit import LineLimit
from web.observability.requests import RequestCounts
from web.request.chunks import BUFFER_BYTES
from web.server.access_log import AccessLog
from web.server.connection import (
    Acceptor,
    Connection,
    Connections,
    Shared,
    answer_of_connection,
    headers_for,
    prepare_answer,
)
from web.settings import ConnectionSettings

SHUTDOWN_SECONDS = 1.0  # for the last requests; the service has drained before
DEFAULTS = ConnectionSettings()


@asynccontextmanager
async def serving(
    app: web.Application, *listeners: socket.socket, settings: ConnectionSettings = DEFAULTS
) -> AsyncIterator[None]:
    """Serve requests from bound sockets, with one limit on the connections of all together.

    The sockets listen from now on, also afterwards: another process or server may accept from them, too.
    """
    headers = headers_for(is_https=settings.is_https)
    app.on_response_prepare.append(partial(prepare_answer, headers))
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    manager = cast(web.Server, runner.server)
    application = cast(Handler, manager.request_handler)
    manager.request_handler = answer_of_connection
    lines = LineLimit(asyncio.get_running_loop().time)
    connections = Connections(settings, lines)
    counts = app.get(REQUEST_COUNTS) or RequestCounts()
    shared = Shared(application, counts, settings, headers, lines, connections.remove)
    connect = partial(Connection, manager, shared, _options(settings))
    try:
        async with AsyncExitStack() as stack:
            for listener in listeners:
                acceptor = Acceptor(listener, connections, connect, headers, lines)
                await stack.enter_async_context(acceptor)
            yield
    finally:
        await runner.cleanup()


def _options(settings: ConnectionSettings) -> dict[str, Any]:
    """Return the framework's options for connections."""
    options: dict[str, Any] = {
        "auto_decompress": False,  # `web/request/parsing.py` decompresses, and only bodies that are read
        "read_bufsize": BUFFER_BYTES,
        "lingering_time": 0.0,  # `Connection` drops the rest of a body, and limits its bytes as well
        "access_log": None,
    }
    if settings.has_access_log:
        options["access_log"] = logging.getLogger("access")
        options["access_log_class"] = partial(AccessLog, trusted_proxies=settings.trusted_proxies)
    return options
