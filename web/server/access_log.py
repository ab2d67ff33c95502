"""The access log: one line for each request that was answered, or whose client has gone."""

import logging
from ipaddress import IPv4Network, IPv6Network
from time import perf_counter
from typing import cast

import structlog
from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from web.access.auth import CALLER, IS_OPERATOR, Caller
from web.observability.requests import HEADER, HEADERS, path_without_token
from web.request.client_address import FORWARDED, client_address
from web.server.connection import Connection

log = structlog.get_logger("access")

MAX_PATH = 500  # characters of a line; a path may be several thousand long

Network = IPv4Network | IPv6Network


class AccessLog(AbstractAccessLogger):
    """Writes the lines. They hold no query values, credentials and tokens of hooks, which may be secret."""

    __slots__ = ("_trusted_proxies",)

    def __init__(
        self, logger: logging.Logger, log_format: str, *, trusted_proxies: tuple[Network, ...]
    ) -> None:
        super().__init__(logger, log_format)
        self._trusted_proxies = trusted_proxies

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        """Write the line of a request. `time`, in seconds, is the framework's, and exact to a millisecond."""
        is_handled = HEADERS in request  # a malformed one is not, and has neither headers nor a route
        seconds = perf_counter() - cast(Connection, request.protocol).began if is_handled else time
        forwarded = request.headers.getall(FORWARDED, ()) if is_handled else ()
        route = _route_of(request) if is_handled else ""
        log.info(
            "request answered",
            request_id=response.headers.get(HEADER, ""),
            method=request.method,
            path=path_without_token(request)[:MAX_PATH],
            route=route,
            status=response.status,
            duration_ms=round(seconds * 1000, 3),
            bytes=response.body_length,
            caller=_caller_of(request),
            client=client_address(request.remote or "", forwarded, self._trusted_proxies),
        )


def _caller_of(request: web.BaseRequest) -> str:
    """Return who called, blank for a request without a valid credential."""
    caller: Caller | None = request.get(CALLER)
    if caller is not None:
        return caller.identity
    return "operator" if request.get(IS_OPERATOR) else ""


def _route_of(request: web.BaseRequest) -> str:
    """Return the pattern of the path, blank for a path that no route has."""
    resource = request.match_info.route.resource if isinstance(request, web.Request) else None
    return resource.canonical if resource else ""
