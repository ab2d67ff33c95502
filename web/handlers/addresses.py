"""The addresses that the service answers at, for somebody who knows only its host."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from aiohttp import web

from web.app_keys import COLLECTIONS
from web.json import json_response
from web.routes import Access, PublicRoute, Route

API = "/api/"


class ServiceAddressesResponse(TypedDict):
    """Paths of the service. `status` and `metrics` need the operator's token."""

    service: str
    api: str
    documentation: str
    schema: str
    health: str
    readiness: str
    status: str
    metrics: str


class ApiAddressesResponse(TypedDict):
    """Paths of the API. A list needs an API key or a user's token."""

    documentation: str
    schema: str
    lists: Sequence[str]


SERVICE_ADDRESSES: ServiceAddressesResponse = {
    "service": "hostsvc",
    "api": API,
    "documentation": "/api/docs/",
    "schema": "/api/schema/",
    "health": "/healthz",
    "readiness": "/readyz",
    "status": "/status/",
    "metrics": "/metrics",
}


async def get_service_addresses(_: web.Request) -> web.Response:
    """Return the paths at which people, programs and operators start."""
    return json_response(SERVICE_ADDRESSES)


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


ROUTES = (
    PublicRoute(
        "GET", "/", get_service_addresses, "Addresses of the service", answer=ServiceAddressesResponse
    ),
    PublicRoute("GET", API, get_api_addresses, "Addresses of the API", answer=ApiAddressesResponse),
)
