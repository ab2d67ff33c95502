"""The addresses that the service answers at, for somebody who knows only its host."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from aiohttp import web

from web.api.service.console import CONSOLE
from web.app_keys import COLLECTIONS
from web.json import json_response
from web.request.preferences import prefers_html
from web.routes import Access, Route, Routes

routes = Routes(Access.ANYONE)

API = "/api/"
VARY = {"Vary": "Accept"}


class ServiceAddressesResponse(TypedDict):
    """Paths of the service."""

    service: str
    """The name of the service: hostsvc."""
    api: str
    """The path that all paths of the API begin with."""
    console: str
    """A page to see and control agents, for people."""
    documentation: str
    """A page to read and try the API."""
    schema: str
    """The OpenAPI document, for programs."""
    health: str
    """Answers 200 while the process is alive."""
    readiness: str
    """Answers 200 while the service can serve, else 503 with the reasons."""
    status: str
    """Shows what every agent is doing, and why; needs the operator's token."""
    metrics: str
    """The state of the service in numbers, for Prometheus; needs the operator's token, unless it is
    open."""


class ApiAddressesResponse(TypedDict):
    """Paths of the API."""

    documentation: str
    """A page to read and try the API."""
    schema: str
    """The OpenAPI document, for programs."""
    lists: Sequence[str]
    """The paths that can be read without an id; each needs an API key or a user's token."""


SERVICE_ADDRESSES: ServiceAddressesResponse = {
    "service": "hostsvc",
    "api": API,
    "console": CONSOLE,
    "documentation": "/api/docs/",
    "schema": "/api/schema/",
    "health": "/healthz",
    "readiness": "/readyz",
    "status": "/status/",
    "metrics": "/metrics",
}


@routes.get("/", answer=ServiceAddressesResponse)
async def get_service_addresses(request: web.Request) -> web.Response:
    """Return the paths at which people, programs and operators start.

    A client that prefers HTML, as a browser does, is redirected to the console with 302.
    """
    if prefers_html(request):
        return web.Response(status=302, headers={"Location": CONSOLE, **VARY})
    return json_response(SERVICE_ADDRESSES, headers=VARY)


@routes.get(API, answer=ApiAddressesResponse)
async def get_api_addresses(request: web.Request) -> web.Response:
    """Return the paths of the API's documentation and of its lists."""
    addresses: ApiAddressesResponse = {
        "documentation": SERVICE_ADDRESSES["documentation"],
        "schema": SERVICE_ADDRESSES["schema"],
        "lists": request.app[COLLECTIONS],
    }
    return json_response(addresses)


def collection_paths(routes: Iterable[Route]) -> tuple[str, ...]:
    """Return the paths that callers can GET without an id, in the order of the routes."""
    return tuple(
        route.path
        for route in routes
        if route.method == "GET" and route.access is Access.CALLERS and "{" not in route.path
    )
