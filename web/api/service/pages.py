"""What needs no credential: the addresses of the service, the API document, and the files of both pages."""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypedDict

from aiohttp import web

from web.app_keys import API_DOCUMENT, COLLECTIONS
from web.console.assets import PREFIX, Asset, read_console
from web.errors import NotFound
from web.json import JSON_TYPE, json_response
from web.request.preferences import accepts_encoding, prefers_html
from web.routes import Access, Route, Routes

routes = Routes(Access.ANYONE)

CONSOLE = "/console/"
CONSOLE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cache-Control": "no-cache",
}
ASSET_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
OUTDATED = "This file belongs to another version of the console. Reload the page."


def add_console_files(app: web.Application) -> None:
    """Add the console and its files. They count for no rate limit."""
    app.router.add_get(PREFIX + "{digest}/{path:.+}", get_asset)
    app.router.add_get(PREFIX + "{path:.*}", refuse_unknown)
    app.router.add_get(CONSOLE + "{path:.*}", get_console)


async def get_console(_: web.Request) -> web.Response:
    """Return the page of the console. Its script shows the screen that belongs to the address."""
    console = read_console()
    console.begin_compressing()
    return web.Response(body=console.page, content_type="text/html", charset="utf-8", headers=CONSOLE_HEADERS)


async def get_asset(request: web.Request) -> web.Response:
    """Return a file of the console. Those of an earlier version are gone, and the answer says so."""
    console = read_console()
    if request.match_info["digest"] != console.digest:
        return json_response({"detail": OUTDATED}, 404)
    asset = console.assets.get(request.match_info["path"])
    if asset is None:
        raise NotFound
    encoding, body = _encode(request, asset)
    headers = {**ASSET_HEADERS, "Content-Encoding": encoding} if encoding else ASSET_HEADERS
    return web.Response(body=body, content_type=asset.content_type, charset="utf-8", headers=headers)


def _encode(request: web.Request, asset: Asset) -> tuple[str, bytes]:
    """Return the smallest form of a file that the client takes and that is ready, and its encoding."""
    if asset.by_brotli is not None and accepts_encoding(request, "br"):
        return "br", asset.by_brotli
    return ("gzip", asset.by_gzip) if accepts_encoding(request, "gzip") else ("", asset.body)


async def refuse_unknown(_: web.Request) -> web.Response:
    """Answer 404: no file has such a path, and the page is not a file."""
    raise NotFound


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


@routes.get(API)
async def get_api_addresses(request: web.Request) -> ApiAddressesResponse:
    """Return the paths of the API's documentation and of its lists."""
    return {
        "documentation": SERVICE_ADDRESSES["documentation"],
        "schema": SERVICE_ADDRESSES["schema"],
        "lists": request.app[COLLECTIONS],
    }


def collection_paths(routes: Iterable[Route]) -> tuple[str, ...]:
    """Return the paths that callers can GET without an id, in the order of the routes."""
    return tuple(
        route.path
        for route in routes
        if route.method == "GET" and route.access is Access.CALLERS and "{" not in route.path
    )


PAGES = "/api/docs/"
SWAGGER_UI = files("web").joinpath("static", "swagger_ui")
FILE_TYPES = {
    "start.js": "text/javascript",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
DOCS_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}


@routes.get("/api/schema/", answer=dict[str, Any])
async def get_schema(request: web.Request) -> web.Response:
    """Return this document. It needs no credential."""
    return web.Response(body=await request.app[API_DOCUMENT](), headers={"Content-Type": JSON_TYPE})


@routes.get(PAGES, answer=str, media_types=("text/html",))
async def get_docs(_: web.Request) -> web.Response:
    """Return a page that shows this document and can send requests. It loads nothing from elsewhere."""
    return _file_response(_read_file("index.html"), "text/html")


def add_documentation_files(app: web.Application) -> None:
    """Add the route of the files that the page loads."""
    app.router.add_get(PAGES + "{name}", get_docs_file)


async def get_docs_file(request: web.Request) -> web.Response:
    """Return a file of the page. Raise NotFound for any other."""
    name = request.match_info["name"]
    if name not in FILE_TYPES:
        raise NotFound
    return _file_response(_read_file(name), FILE_TYPES[name])


@cache
def _read_file(name: str) -> bytes:
    """Read a file when it is first asked for."""
    return SWAGGER_UI.joinpath(name).read_bytes()


def _file_response(body: bytes, content_type: str) -> web.Response:
    charset = None if content_type.startswith("image/") else "utf-8"
    return web.Response(body=body, content_type=content_type, charset=charset, headers=DOCS_HEADERS)
